"""The official clients, the one that waits and the one that does not, and what behaviours are made with."""
import inspect

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


async def code_box(c):
    if "code" + c.name not in one:
        one["code" + c.name] = await of(c.Code.create(timeout=600))
        boxes.append((c, one["code" + c.name]))
    return one["code" + c.name]
