"""What becomes of sandboxes, and what they are made of."""
import asyncio
import os

import e2b

from clients import behaviour, fails, make, of, said, same, shared


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
    await said(box, "until [ -s /tmp/kept ]; do sleep 0.01; done")
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


@behaviour("create: once for a key")
async def _(c):
    key = f"once-{c.name}-{os.getpid()}"
    box, again = [await make(c, idempotency_key=key) for _ in range(2)]
    same(again.sandbox_id, box.sandbox_id)
    await of(box.kill())


@behaviour("list: by state")
async def _(c):
    box = await make(c, metadata={"state": c.name})
    await of(box.pause())
    for state, want in ((e2b.SandboxState.PAUSED, [box.sandbox_id]), (e2b.SandboxState.RUNNING, [])):
        pages = c.Sandbox.list(query=e2b.SandboxQuery(metadata={"state": c.name}, state=[state]))
        same([s.sandbox_id for s in await of(pages.next_items())], want)
    await of(box.kill())


@behaviour("list: oldest first, and newest")
async def _(c):
    made = [(await make(c, metadata={"order": c.name})).sandbox_id for _ in range(2)]
    for order, want in (("asc", made), ("desc", made[::-1])):
        pages = c.Sandbox.list(query=e2b.SandboxQuery(metadata={"order": c.name}), order=order)
        same([s.sandbox_id for s in await of(pages.next_items())], want)
    for id in made:
        await of(c.Sandbox.kill(id))


@behaviour("kill: while a command runs")
async def _(c):
    box = await make(c)
    handle = await of(box.commands.run("sleep 1000", background=True))
    await of(box.kill())
    await fails(handle.wait, e2b.CommandExitException, e2b.SandboxException)


@behaviour("pause: files alone")
async def _(c):
    box = await make(c)
    await of(box.commands.run("echo kept > /tmp/kept; sleep 1000", background=True))
    await said(box, "until [ -s /tmp/kept ]; do sleep 0.01; done")
    same(await of(box.pause(keep_memory=False)), True)
    box = await of(c.Sandbox.connect(box.sandbox_id))
    same(await said(box, "cat /tmp/kept; pgrep -f 'sleep 100[0]' > /dev/null || echo gone"), "kept\ngone")
    await of(box.kill())


@behaviour("pause: one that is paused")
async def _(c):
    box = await make(c)
    same((await of(box.pause()), await of(box.pause())), (True, False))
    await of(box.kill())


@behaviour("lifecycle: paused when its time is over")
async def _(c):
    box = await make(c, lifecycle={"on_timeout": "pause"})
    await of(box.files.write("/tmp/l", "kept"))
    await of(box.set_timeout(0))
    while (await of(c.Sandbox.get_info(box.sandbox_id))).state != e2b.SandboxState.PAUSED:
        await asyncio.sleep(0.05)
    box = await of(c.Sandbox.connect(box.sandbox_id))
    same(await of(box.files.read("/tmp/l")), "kept")
    await of(box.kill())


@behaviour("lifecycle: resumed when it is used")
async def _(c):
    box = await make(c, lifecycle={"on_timeout": "pause", "auto_resume": True})
    await of(box.pause())
    same(await said(box, "echo awake"), "awake")
    await of(box.kill())


@behaviour("snapshot: listed by its name")
async def _(c):
    box, name = await make(c), f"named-{c.name}"
    snapshot = await of(box.create_snapshot(name))
    same([s.snapshot_id for s in await of(c.Sandbox.list_snapshots(name=name).next_items())], [snapshot.snapshot_id])
    await of(box.kill())
    await of(c.Sandbox.delete_snapshot(snapshot.snapshot_id))
    same(await of(c.Sandbox.delete_snapshot(snapshot.snapshot_id)), False)


@behaviour("snapshot: files alone")
async def _(c):
    box = await make(c)
    await of(box.commands.run("sleep 1000", background=True))
    await of(box.files.write("/tmp/f", "kept\n"))
    snapshot = await of(box.create_snapshot(mode="filesystem"))
    again = await make(c, snapshot.snapshot_id)
    same(await said(again, "cat /tmp/f; pgrep -f 'sleep 100[0]' > /dev/null || echo gone"), "kept\ngone")
    for b in (box, again):
        await of(b.kill())
    await of(c.Sandbox.delete_snapshot(snapshot.snapshot_id))


@behaviour("network: rules from the beginning")
async def _(c):
    box = await make(c, network={"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"]})
    network = (await of(box.get_info())).network
    same((list(network["allow_out"]), list(network["deny_out"])), (["example.com"], ["0.0.0.0/0"]))
    await of(box.kill())


@behaviour("template: in the background, and its tags")
async def _(c):
    name = f"pyt-{c.name}"
    build = await of(c.Template.build_in_background(e2b.Template().from_base_image().run_cmd("echo said"), name))
    while (status := await of(c.Template.get_build_status(build, logs_offset=0))).status.value not in ("ready", "error"):
        await asyncio.sleep(0.05)
    same((status.status.value, any("said" in line.message for line in status.log_entries)), ("ready", True))
    await of(c.Template.assign_tags(name, ["one", "two"]))
    await of(c.Template.remove_tags(name, ["one"]))
    tags = {t.tag for t in await of(c.Template.get_tags(name))}
    same(("one" in tags, "two" in tags), (False, True))


@behaviour("template: a Dockerfile, and a command that is ready")
async def _(c):
    t = e2b.Template().from_dockerfile("FROM e2bdev/base\nENV D=docker\nWORKDIR /srv/d\nRUN echo $D > f\n")
    name = f"pyd-{c.name}"
    await of(c.Template.build(t.set_start_cmd("echo up > /tmp/up; sleep 1000", e2b.wait_for_file("/tmp/up")), name))
    box = await make(c, name)
    same(await said(box, "cat f /tmp/up; pgrep -f 'sleep 100[0]' > /dev/null && echo runs"), "docker\nup\nruns")
    await of(box.kill())


@behaviour("secret: listed, with metadata")
async def _(c):
    name = "PYM_" + c.name.upper()
    await of(c.Secret.create(name, "hush", metadata={"team": c.name}))
    listed = {s.name: s.metadata for s in await of(c.Secret.list(limit=100).next_items())}
    same((listed.get(name), (await of(c.Secret.get_info(name))).metadata), ({"team": c.name}, {"team": c.name}))
    await of(c.Secret.destroy(name))


@behaviour("volume: shared, and removed")
async def _(c):
    volume = await of(c.Volume.create(f"py-{c.name}"))
    for command, want in (("echo kept > /data/f; cat /data/f", "kept"), ("cat /data/f", "kept")):
        box = await make(c, volume_mounts={"/data": volume})
        same(await said(box, command), want)
        await of(box.kill())
    assert volume.volume_id in [v.volume_id for v in await of(c.Volume.list())]
    same((await of(c.Volume.destroy(volume.volume_id)), await of(c.Volume.destroy(volume.volume_id))), (True, False))
