# Serves one code context in CPython 3.8 or newer. It stands behind a line that
# the host puts first, with KEY and with TEXT, the size at which texts are cut.
#
# It starts no thread and imports lazily, and it keeps its own references to what
# it calls, so that a program that replaces a function breaks only itself.
import os, sys, signal, _signal, builtins
from itertools import count as counter
from _ast import PyCF_ONLY_AST, PyCF_ALLOW_TOP_LEVEL_AWAIT, Expression, Expr
try:
    from _json import encode_basestring_ascii as quote
except ImportError:
    from json import dumps as quote

KEY = KEY.encode()
PIECE = 4096 - 79  # with its head as much as a pipe takes in one step
COROUTINE = 0x80
BROKEN_PIPES = 71

read, write, getpid, set_blocking, kill_process = os.read, os.write, os.getpid, os.set_blocking, os._exit
set_signal, get_signal, SIGINT = _signal.signal, _signal.getsignal, _signal.SIGINT
modules = sys.modules
home = getpid()
nonce = b'0' * 32
cells = 0
serial = counter()
pending = b''
loop = None
on_interrupt = signal.default_int_handler


def private(fd, number):
    try:
        return os.dup2(fd, number, False)
    except OSError:
        return os.dup(fd)


def empty_stdin():
    null = os.open('/dev/null', os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


# What follows goes to the host. A piece is written whole or not at all, so an
# interrupt, a thread or a child that writes too can never tear one.

def put(fd, piece):
    while True:
        try:
            write(fd, piece)
            return
        except BlockingIOError:  # a child made the pipe non-blocking for all
            set_blocking(fd, True)
        except OSError:
            kill_process(BROKEN_PIPES)  # the program has closed what is not its own


def send(fd, kind, body=b''):
    mark = (getpid() & 0xffff) << 16 | next(serial) & 0xffff
    head = b'\x1e%s%s%08x%s' % (KEY, nonce, mark, kind)
    at = 0
    while True:
        part = body[at:at + PIECE]
        last = at + PIECE >= len(body)
        place = (b'=' if last else b'<') if at == 0 else (b'>' if last else b'-')
        put(fd, b'%s%s%04x%s' % (head, place, len(part), part))
        if last:
            return
        at += PIECE


def to_json(fields):
    return ('{%s}' % ','.join('%s:%s' % (quote(k), v) for k, v in fields)).encode('ascii')


def clip(text, size):
    return text if len(text) <= size else text[:size] + '... (%d more characters)' % (len(text) - size)


# Values.

REPRS = (
    ('text/html', '_repr_html_'), ('text/markdown', '_repr_markdown_'), ('image/svg+xml', '_repr_svg_'),
    ('image/png', '_repr_png_'), ('image/jpeg', '_repr_jpeg_'), ('application/pdf', '_repr_pdf_'),
    ('text/latex', '_repr_latex_'), ('application/json', '_repr_json_'), ('application/javascript', '_repr_javascript_'),
)
PLAIN = (dict, list, str, int, float, bool)


def complain(obj, method, failure):
    write(2, ('%s of %s failed: %s: %s\n' % (method, type(obj).__name__, type(failure).__name__, clip(str(failure), 1000))).encode('utf-8', 'replace'))


def ask(obj, method, *args, **options):
    if isinstance(obj, type):
        return None
    found = getattr(type(obj), method, None)
    if found is None:
        return None
    try:
        answer = found(obj, *args, **options)
    except Exception as failure:
        complain(obj, method, failure)
        return None
    return answer[0] if isinstance(answer, tuple) and answer else answer


def json_text(value):
    from json import dumps
    return dumps(value, allow_nan=False)


def encoded(mime, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        from binascii import b2a_base64
        return quote(b2a_base64(value, newline=False).decode('ascii'))
    if isinstance(value, str) and not mime.endswith('json'):
        return quote(value)
    return json_text(value)


def figure_png(obj):
    figures = modules.get('matplotlib.figure')
    if figures is None or not isinstance(obj, figures.Figure):
        return None
    from io import BytesIO
    out = BytesIO()
    obj.savefig(out, format='png', bbox_inches='tight')
    if 'matplotlib.pyplot' in modules:
        modules['matplotlib.pyplot'].close(obj)  # it is shown: once is enough
    return out.getvalue()


def bundle(obj):
    data = {}
    offered = ask(obj, '_repr_mimebundle_', include=None, exclude=None)
    if isinstance(offered, dict):
        data.update(offered)
    for mime, method in REPRS:
        if mime not in data:
            answer = ask(obj, method)
            if answer is not None:
                data[mime] = answer
    picture = figure_png(obj)
    if picture is not None:
        data.setdefault('image/png', picture)
    if 'text/plain' not in data:
        data['text/plain'] = repr(obj)
    if type(obj) in PLAIN and len(data['text/plain']) <= TEXT:
        data.setdefault('application/json', obj)
    return data


def show(obj, main):
    fields, cut = [], False
    for mime, value in bundle(obj).items():
        if mime == 'text/plain':
            cut = len(value) > TEXT
            value = clip(str(value), TEXT)
        try:
            fields.append((str(mime), encoded(mime, value)))
        except (TypeError, ValueError, RecursionError) as failure:
            if type(obj) not in PLAIN:
                complain(obj, mime, failure)
    body = to_json((('main', 'true' if main else 'false'), ('cut', 'true' if cut else 'false'), ('data', to_json(fields).decode('ascii'))))
    send(OUT, b'v', body)


def display(*objects, **options):
    """Show values as notebooks do: by their _repr_*_ methods."""
    for obj in objects:
        show(obj, False)


def show_figures(*args, **options):
    plot = modules.get('matplotlib.pyplot')
    if plot is None or not hasattr(plot, 'get_fignums'):
        return
    for number in plot.get_fignums():
        show(plot.figure(number), False)


class PlotHook:
    """Makes pyplot.show give the open figures, whenever it is imported."""
    asked = False

    def find_spec(self, name, path=None, target=None):
        if name != 'matplotlib.pyplot' or self.asked:
            return None
        from importlib.util import find_spec
        self.asked = True  # for the others will be asked now
        try:
            spec = find_spec(name)
        finally:
            self.asked = False
        if spec is not None:
            spec.loader.exec_module = self.after(spec.loader.exec_module)
        return spec

    def after(self, load):
        def exec_module(module):
            load(module)
            module.show = show_figures
        return exec_module


# Running code.

def remember(name, code):
    import linecache
    linecache.cache[name] = (len(code), None, [line + '\n' for line in code.splitlines()], name)


def silenced(code, node):
    rest = code.encode('utf-8', 'surrogatepass').splitlines()[node.end_lineno - 1][node.end_col_offset:]
    return rest.lstrip().startswith(b';')


def wait_for(coroutine):
    global loop
    import asyncio
    if loop is None or loop.is_closed():
        from selectors import PollSelector  # holds no descriptor of its own
        loop = asyncio.SelectorEventLoop(PollSelector())
        asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        raise


def step(tree, name, mode):
    code = compile(tree, name, mode, PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    value = eval(code, space)
    return wait_for(value) if code.co_flags & COROUTINE else value


def run(payload):
    global cells
    cells += 1
    name, code = '<cell %d>' % cells, payload.decode('utf-8', 'replace')
    remember(name, code)
    tree = compile(code, name, 'exec', PyCF_ONLY_AST | PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    last = tree.body.pop() if tree.body and type(tree.body[-1]) is Expr else None
    if tree.body:
        step(tree, name, 'exec')
    if last is not None:
        value = step(Expression(last.value), name, 'eval')
        if value is not None:
            space['_'] = value
            if not silenced(code, last):
                show(value, True)
    show_figures()


def own_frames(trace):
    first = trace
    while first is not None and not first.tb_frame.f_code.co_filename.startswith('<cell '):
        first = first.tb_next
    return first


def describe(failure):
    try:
        value = clip(str(failure), 1 << 16)
    except BaseException as again:
        value = 'its text cannot be had: %s' % type(again).__name__
    try:
        from traceback import format_exception
        text = ''.join(format_exception(type(failure), failure, own_frames(failure.__traceback__)))
    except BaseException as again:
        text = '%s: %s\nits traceback cannot be had: %s' % (type(failure).__name__, value, type(again).__name__)
    return to_json((('name', quote(type(failure).__name__)), ('value', quote(value)), ('traceback', quote(clip(text, 1 << 18)))))


# What a copy of this process must not share with its siblings.

def renew_random(seed):
    modules['random'].seed(seed)


def renew_numpy(seed):
    words = [int.from_bytes(seed[i:i + 4], 'little') for i in range(0, len(seed), 4)]
    modules['numpy'].random.seed(words)


def renew_ssl(seed):
    modules['ssl'].RAND_add(seed, float(len(seed)))


def renew_tempfile(seed):
    modules['tempfile']._name_sequence = None


def renew_uuid(seed):
    for name in ('_last_timestamp', '_last_timestamp_v7'):
        if hasattr(modules['uuid'], name):
            setattr(modules['uuid'], name, None)


def renew_asyncio(seed):
    if loop is not None and not loop.is_closed():
        loop._close_self_pipe()
        loop._make_self_pipe()


RENEW = (
    ('random', 'random', renew_random), ('numpy', 'numpy.random (legacy)', renew_numpy), ('ssl', 'ssl (OpenSSL)', renew_ssl),
    ('tempfile', 'tempfile', renew_tempfile), ('uuid', 'uuid', renew_uuid), ('asyncio', 'asyncio (wake-up socket)', renew_asyncio),
)
KEPT = (
    ('sys', 'hash randomization: fixed when the process starts'),
    ('random', 'random.Random objects that the program holds'),
    ('numpy', 'numpy Generator objects that the program holds'),
    ('torch', 'torch: call torch.seed()'),
)


def reseed(payload):
    done, kept = [], [text for name, text in KEPT if name in modules]
    for name, text, renew in RENEW:
        if name not in modules:
            continue  # it will seed itself when it is imported
        try:
            renew(os.urandom(32) + payload)
            done.append(text)
        except Exception as failure:
            kept.append('%s: %s: %s' % (text, type(failure).__name__, clip(str(failure), 1000)))
    as_list = lambda texts: '[%s]' % ','.join(map(quote, texts))
    data = to_json((('reseeded', as_list(done)), ('kept', as_list(kept)))).decode('ascii')
    send(OUT, b'v', to_json((('main', 'true'), ('cut', 'false'), ('data', '{"application/json":%s}' % data))))


# The conversation with the host.

def receive(size=None):
    """Gives so many bytes of input, or without a size a line of it."""
    global pending
    while size is None and b'\n' not in pending or size is not None and len(pending) < size:
        try:
            more = read(INPUT, 65536)
        except OSError:
            kill_process(BROKEN_PIPES)
        if not more:
            return None
        pending += more
    end = pending.index(b'\n') + 1 if size is None else size
    taken, pending = pending[:end], pending[end:]
    return taken


def ignore(number, frame):
    """Takes the interrupts that come between calls."""


def attempt(work, payload):
    try:
        set_signal(SIGINT, on_interrupt)
        work(payload)
    except BaseException as failure:
        send(OUT, b'x', describe(failure))


def settle():
    global on_interrupt
    handler = ignore
    for _ in range(100):
        try:
            handler = get_signal(SIGINT)
            set_signal(SIGINT, ignore)
            break
        except BaseException:
            continue  # the last interrupt of this call: there is nothing left to stop
    if handler is not ignore:
        on_interrupt = signal.default_int_handler if handler is None else handler
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # the program's own stream; what it lost is its own


def answer(work, payload):
    for fd in (OUT, ERR):
        send(fd, b'b')
    try:
        attempt(work, payload)
    except BaseException as failure:  # an interrupt during the report of a failure
        late = failure
    else:
        late = None
    settle()
    if getpid() != home:
        kill_process(0)  # a child that the program forked and did not end
    if late is not None:
        send(OUT, b'x', describe(late))
    send(OUT, b'e', to_json((('count', str(cells)),)))
    send(ERR, b'e')


def serve():
    global nonce
    works = {b'run': run, b'reseed': reseed, b'sync': len}
    while True:
        line = receive()
        if line is None:
            return
        operation, nonce, size = line.split()
        payload = receive(int(size))
        if payload is None:
            return
        answer(works[operation], payload)


def hang_up():
    if os.getpgrp() == getpid() == home:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.killpg(0, signal.SIGHUP)


INPUT, OUT, ERR = private(0, 200), private(1, 201), private(2, 202)
empty_stdin()
set_signal(SIGINT, ignore)
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(encoding='utf-8', errors='backslashreplace')
sys.argv = ['']
sys.meta_path.insert(0, PlotHook())
builtins.display = display
modules['__main__'] = main = type(sys)('__main__')
main.__builtins__ = builtins
space = main.__dict__
serve()
hang_up()
