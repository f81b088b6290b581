"""Drives a daemon with the official clients, the one that waits and the one that does not.
Each behaviour prints one line of JSON."""
import asyncio
import inspect
import json
import os
import re
import sys
import time
import traceback

import e2b
import e2b_code_interpreter as code


class Waits:
    """The client that waits."""
    name, Sandbox, Template, Secret, Volume, Code = "sync", e2b.Sandbox, e2b.Template, e2b.Secret, e2b.Volume, code.Sandbox


class Does:
    """The client that does not."""
    name, Sandbox, Template, Secret, Volume, Code = "async", e2b.AsyncSandbox, e2b.AsyncTemplate, e2b.AsyncSecret, e2b.AsyncVolume, code.AsyncSandbox


async def of(value):
    """What a call of either client gives."""
    return await value if inspect.isawaitable(value) else value


behaviours = {}


def behaviour(name):
    def note(run):
        behaviours[name] = run
        return run
    return note


def same(got, want):
    assert got == want, f"{got!r} is not {want!r}"


async def fails(call, *kinds):
    try:
        await of(call())
    except kinds as e:
        return e
    raise AssertionError("it does not fail")


boxes = []
one = {}


async def make(c, *args, **opts):
    box = await of(c.Sandbox.create(*args, **opts))
    boxes.append((c, box))
    return box


async def shared(c):
    if c.name not in one:
        one[c.name] = await make(c, timeout=600)
    return one[c.name]


async def said(box, command, **opts):
    return (await of(box.commands.run(command, **opts))).stdout.strip()


@behaviour("create: metadata and variables")
async def _(c):
    box = await make(c, metadata={"a": c.name}, envs={"ONE": "1"}, timeout=60)
    info = await of(box.get_info())
    same((info.metadata, info.template_id, info.sandbox_id), ({"a": c.name}, "base", box.sandbox_id))
    same(await said(box, "echo $ONE"), "1")
    assert 0 < (info.end_at - info.started_at).total_seconds() <= 61
    same(await of(box.kill()), True)
    same(await of(c.Sandbox.kill(box.sandbox_id)), False)


@behaviour("create: a template that is not there")
async def _(c):
    await fails(lambda: c.Sandbox.create("no-such-template"), e2b.NotFoundException, e2b.SandboxException)


@behaviour("key: a wrong one is refused")
async def _(c):
    await fails(lambda: c.Sandbox.create(api_key="e2b_" + "0" * 40), e2b.AuthenticationException)


@behaviour("connect: by its id")
async def _(c):
    box = await shared(c)
    await of(box.commands.run("echo here > /tmp/here"))
    again = await of(c.Sandbox.connect(box.sandbox_id, timeout=600))
    same(await said(again, "cat /tmp/here"), "here")


@behaviour("connect: one that is not there")
async def _(c):
    await fails(lambda: c.Sandbox.connect("none0000000000000000"), e2b.NotFoundException, e2b.SandboxException)


@behaviour("list: by metadata")
async def _(c):
    box = await make(c, metadata={"found": c.name})
    pages = c.Sandbox.list(query=e2b.SandboxQuery(metadata={"found": c.name}))
    same([s.sandbox_id for s in await of(pages.next_items())], [box.sandbox_id])
    same(pages.has_next, False)
    await of(box.kill())


@behaviour("list: in pages")
async def _(c):
    made = [await make(c, metadata={"paged": c.name}) for _ in range(3)]
    pages, seen = c.Sandbox.list(query=e2b.SandboxQuery(metadata={"paged": c.name}), limit=2), []
    while pages.has_next:
        seen.append([s.sandbox_id for s in await of(pages.next_items())])
    same([len(p) for p in seen], [2, 1])
    same({i for p in seen for i in p}, {b.sandbox_id for b in made})
    for box in made:
        await of(box.kill())


@behaviour("timeout: set anew")
async def _(c):
    box = await make(c, timeout=60)
    before = (await of(box.get_info())).end_at
    await of(box.set_timeout(600))
    assert (await of(box.get_info())).end_at > before
    await of(box.kill())


@behaviour("running: and not any more")
async def _(c):
    box = await make(c)
    same(await of(box.is_running()), True)
    await of(box.kill())
    same(await of(box.is_running()), False)


@behaviour("pause: memory goes on")
async def _(c):
    box = await make(c)
    handle = await of(box.commands.run("echo kept > /tmp/kept; sleep 1000", background=True))
    await of(box.pause())
    same((await of(c.Sandbox.get_info(box.sandbox_id))).state, e2b.SandboxState.PAUSED)
    box = await of(c.Sandbox.connect(box.sandbox_id))
    same(await said(box, f"cat /tmp/kept; kill -0 {handle.pid} && echo runs"), "kept\nruns")
    await of(box.kill())


@behaviour("fork: two")
async def _(c):
    box = await make(c)
    await of(box.files.write("/tmp/f", "before"))
    forks = await of(box.fork(count=2))
    same([await of(f.files.read("/tmp/f")) for f in forks], ["before"] * 2)
    await of(forks[0].files.write("/tmp/f", "after"))
    same([await of(forks[1].files.read("/tmp/f")), await of(box.files.read("/tmp/f"))], ["before"] * 2)
    for b in [*forks, box]:
        await of(b.kill())


@behaviour("snapshot: made, started from and deleted")
async def _(c):
    box = await make(c)
    await of(box.files.write("/tmp/s", "kept"))
    snapshot = await of(box.create_snapshot())
    again = await make(c, snapshot.snapshot_id)
    same(await of(again.files.read("/tmp/s")), "kept")
    for b in (box, again):
        await of(b.kill())
    same(await of(c.Sandbox.delete_snapshot(snapshot.snapshot_id)), True)


@behaviour("metrics")
async def _(c):
    m = (await of((await shared(c)).get_metrics()))[0]
    assert m.cpu_count >= 1 and 0 <= m.mem_used <= m.mem_total, m


@behaviour("network: none, and changed")
async def _(c):
    box = await make(c, allow_internet_access=False)
    same((await of(box.get_info())).allow_internet_access, False)
    await of(box.update_network({"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"]}))
    same(list((await of(box.get_info())).network["allow_out"]), ["example.com"])
    await of(box.kill())


@behaviour("run: output, status and user")
async def _(c):
    box = await shared(c)
    r = await of(box.commands.run("echo out; echo err >&2"))
    same((r.stdout, r.stderr, r.exit_code), ("out\n", "err\n", 0))
    e = await fails(lambda: box.commands.run("exit 3"), e2b.CommandExitException)
    same(e.exit_code, 3)
    same((await said(box, "id -un"), await said(box, "id -un", user="root")), ("user", "root"))


@behaviour("run: streams, directory and variables")
async def _(c):
    pieces = []
    r = await of((await shared(c)).commands.run("pwd; echo $X", cwd="/tmp", envs={"X": "y"}, on_stdout=pieces.append))
    same(("".join(pieces), r.stdout), ("/tmp\ny\n", "/tmp\ny\n"))


@behaviour("run: too long")
async def _(c):
    box = await shared(c)
    await fails(lambda: box.commands.run("sleep 30", timeout=0.5), e2b.TimeoutException)


@behaviour("background: listed, connected to and killed")
async def _(c):
    box = await shared(c)
    handle = await of(box.commands.run("echo begun; sleep 1000", background=True))
    assert handle.pid in [p.pid for p in await of(box.commands.list())]
    again = await of(box.commands.connect(handle.pid))
    same(again.pid, handle.pid)
    same(await of(box.commands.kill(handle.pid)), True)
    await fails(handle.wait, e2b.CommandExitException)
    same(await of(box.commands.kill(handle.pid)), False)


@behaviour("stdin: sent")
async def _(c):
    box = await shared(c)
    handle = await of(box.commands.run("read line; echo got $line", background=True, stdin=True))
    await of(box.commands.send_stdin(handle.pid, "text\n"))
    same((await of(handle.wait())).stdout, "got text\n")


@behaviour("terminal: written to and resized")
async def _(c):
    box, heard = await shared(c), []
    size = e2b.PtySize(rows=24, cols=80)
    if c is Does:
        handle = await of(box.pty.create(size, on_data=heard.append, envs={"PS1": ""}))
    else:
        handle = box.pty.create(size, envs={"PS1": ""})
    await of(box.pty.resize(handle.pid, e2b.PtySize(rows=30, cols=100)))
    await of(box.pty.send_stdin(handle.pid, b"stty size; exit\n"))
    if c is Does:
        await of(handle.wait())
    else:
        handle.wait(on_pty=heard.append)
    assert b"30 100" in b"".join(heard), heard


@behaviour("files: text and bytes")
async def _(c):
    box = await shared(c)
    await of(box.files.write("/tmp/t", "text"))
    await of(box.files.write("/tmp/b", b"\x00\xff"))
    same((await of(box.files.read("/tmp/t")), bytes(await of(box.files.read("/tmp/b", format="bytes")))), ("text", b"\x00\xff"))


@behaviour("files: several at once")
async def _(c):
    box = await shared(c)
    await of(box.files.write_files([{"path": f"/tmp/many/{i}", "data": f"{i}"} for i in range(3)]))
    same(sorted(e.name for e in await of(box.files.list("/tmp/many"))), ["0", "1", "2"])


@behaviour("files: directories, moved and removed")
async def _(c):
    box = await shared(c)
    path = f"/tmp/dir-{c.name}"
    same((await of(box.files.make_dir(path)), await of(box.files.make_dir(path))), (True, False))
    await of(box.files.write(path + "/a", "x"))
    await of(box.files.rename(path + "/a", path + "/b"))
    same((await of(box.files.exists(path + "/a")), await of(box.files.exists(path + "/b"))), (False, True))
    info = await of(box.files.get_info(path + "/b"))
    same((info.type, info.size, info.owner), (e2b.FileType.FILE, 1, "user"))
    await of(box.files.remove(path))
    same(await of(box.files.exists(path)), False)


@behaviour("files: one that is not there")
async def _(c):
    box = await shared(c)
    await fails(lambda: box.files.read("/tmp/none"), e2b.NotFoundException, e2b.FileNotFoundException)


@behaviour("files: a million bytes")
async def _(c):
    box, much = await shared(c), os.urandom(1 << 20)
    await of(box.files.write("/tmp/much", much))
    same(bytes(await of(box.files.read("/tmp/much", format="bytes"))) == much, True)


@behaviour("watch: a file that is made")
async def _(c):
    box = await shared(c)
    await of(box.files.make_dir(f"/tmp/watched-{c.name}"))
    if c is Does:
        came = asyncio.Event()
        handle = await of(box.files.watch_dir(f"/tmp/watched-{c.name}", on_event=lambda e: came.set() if e.name == "new" else None))
        await of(box.files.write(f"/tmp/watched-{c.name}/new", "x"))
        await asyncio.wait_for(came.wait(), 30)
    else:
        handle = box.files.watch_dir(f"/tmp/watched-{c.name}")
        box.files.write(f"/tmp/watched-{c.name}/new", "x")
        while not any(e.name == "new" for e in handle.get_new_events()):
            pass
    await of(handle.stop())


@behaviour("signed: a URL to send to and one to read from")
async def _(c):
    import urllib.request
    box = await shared(c)
    await of(box.files.write("/tmp/signed", "signed"))
    url = await of(box.download_url("/tmp/signed"))
    same(urllib.request.urlopen(url).read(), b"signed")


@behaviour("port: by its host")
async def _(c):
    import urllib.request
    box = await shared(c)
    handle = await of(box.commands.run("python3 -m http.server 8123", background=True, cwd="/tmp"))
    await of(box.commands.run("until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' 2>/dev/null; do :; done"))
    host = box.get_host(8123)
    request = urllib.request.Request(os.environ["E2B_API_URL"] + "/", headers={"Host": host})
    same(urllib.request.urlopen(request).status, 200)
    await of(handle.kill())


@behaviour("git: a commit")
async def _(c):
    box = await shared(c)
    path = f"/tmp/git-{c.name}"
    await of(box.git.init(path))
    await of(box.git.configure_user("A", "a@example.com"))
    await of(box.files.write(path + "/f", "x"))
    await of(box.git.add(path))
    await of(box.git.commit(path, "first"))
    same((await of(box.git.status(path))).is_clean, True)


@behaviour("code: results, output and errors")
async def _(c):
    box = await code_box(c)
    r = await of(box.run_code("print('out')\nx = 20\nx + 1"))
    same((r.text, "".join(r.logs.stdout)), ("21", "out\n"))
    r = await of(box.run_code("1/0"))
    same((r.error.name, "division" in r.error.value), ("ZeroDivisionError", True))


@behaviour("code: contexts")
async def _(c):
    box = await code_box(c)
    context = await of(box.create_code_context(language="python"))
    await of(box.run_code("y = 5", context=context))
    same((await of(box.run_code("y", context=context))).text, "5")
    same((await of(box.run_code("y"))).error.name, "NameError")
    assert (await of(box.run_code("1 + 1", language="javascript"))).text == "2"


async def code_box(c):
    if "code" + c.name not in one:
        one["code" + c.name] = await of(c.Code.create(timeout=600))
        boxes.append((c, one["code" + c.name]))
    return one["code" + c.name]


@behaviour("template: built, and made of another")
async def _(c):
    name = f"py-{c.name}"
    t = e2b.Template().from_base_image().set_envs({"A": "b"}).set_workdir("/srv/py").run_cmd("echo $A > f")
    build = c.Template.build(t, name)
    info = await of(build)
    same(info.name, name)
    await of(c.Template.build(e2b.Template().from_template(name).run_cmd("cat f f > g"), name + "-2"))
    box = await make(c, name + "-2")
    same(await said(box, "pwd; cat g"), "/srv/py\nb\nb")
    same((await of(c.Template.exists(name)), await of(c.Template.exists("no-such"))), (True, False))
    await of(box.kill())


@behaviour("template: files are copied")
async def _(c):
    import tempfile
    with tempfile.TemporaryDirectory() as dir:
        with open(dir + "/f.txt", "w") as f:
            f.write(c.name)
        await of(c.Template.build(e2b.Template(file_context_path=dir).from_base_image().copy("f.txt", "/opt/g.txt"), f"pyc-{c.name}"))
    box = await make(c, f"pyc-{c.name}")
    same(await of(box.files.read("/opt/g.txt")), c.name)
    await of(box.kill())


@behaviour("template: a failure is told")
async def _(c):
    e = await fails(lambda: c.Template.build(e2b.Template().from_base_image().run_cmd("echo oh no; exit 3"), "py-broken"), e2b.BuildException)
    assert "oh no" in str(e), e


@behaviour("secret: made, changed and removed")
async def _(c):
    name = "PY_" + c.name.upper()
    made = await of(c.Secret.create(name, "hush"))
    same((made.name, made.version), (name, 1))
    assert (await of(c.Secret.update(name, "hush-2"))).version > 1
    same((await of(c.Secret.exists(name)), await of(c.Secret.destroy(name)), await of(c.Secret.exists(name))), (True, True, False))


async def main():
    only = re.compile(os.environ.get("ONLY", ""))
    for c in (Waits, Does):
        for name, run in behaviours.items():
            if not only.search(name):
                continue
            began, error = time.monotonic(), None
            try:
                await asyncio.wait_for(run(c), 60)
            except Exception:
                error = traceback.format_exc()
            print(json.dumps({"name": f"{c.name}: {name}", "ms": int((time.monotonic() - began) * 1000), "error": error or ""}), flush=True)
    for c, box in boxes:
        try:
            await of(box.kill())
        except Exception as e:
            print(e, file=sys.stderr)


asyncio.run(main())
