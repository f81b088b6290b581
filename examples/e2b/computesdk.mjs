// A sandbox by way of computesdk, which speaks to E2B's API. Nothing in it is about Aether:
// E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY say where the daemon is.
import { e2b } from '@computesdk/e2b'

const sdk = e2b({ apiKey: process.env.E2B_API_KEY })
const sandbox = await sdk.sandbox.create()
await sandbox.filesystem.writeFile('/tmp/hello.py', 'print("hello from", 6 * 7)\n')
const result = await sandbox.runCommand('python3 /tmp/hello.py')
console.log(result.stdout.trim())
await sandbox.destroy()
