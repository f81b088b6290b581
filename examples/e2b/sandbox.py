"""A sandbox by way of E2B's client. Nothing in it is about Aether: E2B_API_URL,
E2B_SANDBOX_URL and E2B_API_KEY say where the daemon is."""
from e2b import Sandbox

with Sandbox.create(metadata={"for": "hello"}) as sandbox:
    sandbox.files.write("/tmp/hello.py", 'print("hello from", 6 * 7)\n')
    print(sandbox.commands.run("python3 /tmp/hello.py").stdout.strip())
