"""What is done in a sandbox: commands, files, ports, code."""
import asyncio
import os

import e2b

from clients import Does, behaviour, code_box, fails, of, said, same, shared


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
    await fails(lambda: box.commands.run("sleep 600", timeout=0.5), e2b.TimeoutException)


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


@behaviour("run: much output, on both streams")
async def _(c):
    errors = []
    r = await of((await shared(c)).commands.run("seq 200000; echo oh >&2", on_stderr=errors.append))
    same((len(r.stdout), r.stdout[-7:], "".join(errors)), (1288895, "200000\n", "oh\n"))


@behaviour("run: where there is no directory")
async def _(c):
    box = await shared(c)
    await fails(lambda: box.commands.run("true", cwd="/no/such"), e2b.SandboxException)


@behaviour("background: heard by its handle")
async def _(c):
    box, heard = await shared(c), []
    if c is Does:
        handle = await of(box.commands.run("echo one; echo two", background=True, on_stdout=heard.append))
        await of(handle.wait())
    else:
        box.commands.run("echo one; echo two", background=True).wait(on_stdout=heard.append)
    same("".join(heard), "one\ntwo\n")


@behaviour("stdin: ended")
async def _(c):
    box = await shared(c)
    handle = await of(box.commands.run("wc -c", background=True, stdin=True))
    await of(box.commands.send_stdin(handle.pid, "four"))
    await of(box.commands.close_stdin(handle.pid))
    same((await of(handle.wait())).stdout.strip(), "4")


@behaviour("terminal: killed")
async def _(c):
    box = await shared(c)
    opts = {"on_data": lambda data: None} if c is Does else {}
    handle = await of(box.pty.create(e2b.PtySize(rows=24, cols=80), **opts))
    same(await of(box.pty.kill(handle.pid)), True)
    await fails(handle.wait, e2b.CommandExitException)
    same(await of(box.pty.kill(handle.pid)), False)


@behaviour("files: as a stream")
async def _(c):
    box, got = await shared(c), b""
    await of(box.files.write("/tmp/stream", b"x" * 300000))
    stream = await of(box.files.read("/tmp/stream", format="stream"))
    if c is Does:
        async for piece in stream:
            got += piece
    else:
        got = b"".join(stream)
    same(len(got), 300000)


@behaviour("files: packed on the way")
async def _(c):
    box = await shared(c)
    await of(box.files.write("/tmp/packed", "x" * 100000, gzip=True))
    same((await said(box, "wc -c < /tmp/packed"), len(await of(box.files.read("/tmp/packed", gzip=True)))), ("100000", 100000))


@behaviour("files: metadata")
async def _(c):
    box = await shared(c)
    await of(box.files.write("/tmp/about", "x", metadata={"made-by": c.name}))
    same((await of(box.files.get_info("/tmp/about"))).metadata, {"made-by": c.name})


@behaviour("files: of another user")
async def _(c):
    box = await shared(c)
    await of(box.files.write("/root/mine", "x", user="root"))
    same((await said(box, "stat -c %U /root/mine", user="root"), (await of(box.files.get_info("/root/mine", user="root"))).owner), ("root", "root"))
    await fails(lambda: box.files.read("/root/mine"), e2b.SandboxException)


@behaviour("files: some levels deep")
async def _(c):
    box = await shared(c)
    await of(box.commands.run("mkdir -p /tmp/deep/a/b; touch /tmp/deep/a/b/f; ln -s /tmp/deep /tmp/deep/link"))
    for depth, want in ((1, ["a", "link"]), (2, ["a", "b", "link"]), (3, ["a", "b", "f", "link"])):
        same(sorted(e.name for e in await of(box.files.list("/tmp/deep", depth=depth))), want)
    same((await of(box.files.get_info("/tmp/deep/link"))).symlink_target, "/tmp/deep")


@behaviour("watch: below it too")
async def _(c):
    box = await shared(c)
    path = f"/tmp/tree-{c.name}"
    await of(box.files.make_dir(path + "/below"))
    names = []
    if c is Does:
        handle = await of(box.files.watch_dir(path, on_event=lambda e: names.append(e.name), recursive=True))
    else:
        handle = box.files.watch_dir(path, recursive=True)
    await of(box.files.write(path + "/below/new", "x"))
    while "below/new" not in names:
        await asyncio.sleep(0.01)
        if c is not Does:
            names += [e.name for e in handle.get_new_events()]
    await of(handle.stop())


@behaviour("signed: a URL to send to")
async def _(c):
    import httpx
    box = await shared(c)
    url = await of(box.upload_url("/tmp/sent"))
    same(httpx.post(url, files={"file": b"sent"}).status_code, 200)
    same(await of(box.files.read("/tmp/sent")), "sent")


@behaviour("git: branches and a clone")
async def _(c):
    box = await shared(c)
    path = f"/tmp/branches-{c.name}"
    await of(box.git.init(path, initial_branch="main"))
    await of(box.git.configure_user("A", "a@example.com"))
    await of(box.files.write(path + "/f", "x"))
    await of(box.git.add(path))
    await of(box.git.commit(path, "first"))
    await of(box.git.create_branch(path, "other"))
    branches = await of(box.git.branches(path))
    same((sorted(branches.branches), branches.current_branch), (["main", "other"], "other"))
    await of(box.git.clone("file://" + path, path + "-2"))
    same(await of(box.files.read(path + "-2/f")), "x")


@behaviour("code: streamed")
async def _(c):
    out, err, results = [], [], []  # a line may come in parts, with those of the other between
    await of((await code_box(c)).run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7",
             on_stdout=lambda m: out.append(m.line), on_stderr=lambda m: err.append(m.line), on_result=lambda r: results.append(r.text)))
    same(("".join(out), "".join(err), results), ("out\n", "err\n", ["42"]))


@behaviour("code: rich results")
async def _(c):
    r = await of((await code_box(c)).run_code("class Rich:\n    def _repr_html_(self): return '<b>x</b>'\n    def _repr_markdown_(self): return '**x**'\nRich()"))
    same((r.results[0].html, r.results[0].markdown), ("<b>x</b>", "**x**"))


@behaviour("code: variables and a directory")
async def _(c):
    box = await code_box(c)
    context = await of(box.create_code_context(cwd="/tmp"))
    r = await of(box.run_code("import os\n(os.getcwd(), os.environ['V'])", context=context, envs={"V": "set"}))
    same(r.text, "('/tmp', 'set')")


@behaviour("code: contexts are listed, begun anew and removed")
async def _(c):
    box = await code_box(c)
    context = await of(box.create_code_context(language="python"))
    assert context.id in [one.id for one in await of(box.list_code_contexts())]
    await of(box.run_code("z = 1", context=context))
    await of(box.restart_code_context(context))
    same((await of(box.run_code("z", context=context))).error.name, "NameError")
    await of(box.remove_code_context(context))
    assert context.id not in [one.id for one in await of(box.list_code_contexts())]


@behaviour("code: too long")
async def _(c):
    box = await code_box(c)
    context = await of(box.create_code_context(language="python"))
    await fails(lambda: box.run_code("import time\ntime.sleep(600)", context=context, timeout=0.5), e2b.TimeoutException)


@behaviour("code: a shell's")
async def _(c):
    r = await of((await code_box(c)).run_code("x=shell; echo from a $x", language="bash"))
    same("".join(r.logs.stdout), "from a shell\n")
