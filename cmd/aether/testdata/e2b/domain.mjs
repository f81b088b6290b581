// Clients that are told a domain, and find everything below it.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { Sandbox } from '@e2b/code-interpreter'
import { keep, said } from './help.mjs'

// Whoever asks for a name below the domain is led to the daemon, as wildcard DNS would.
const lookup = dns.lookup
dns.lookup = (name, opts, done) => (name.endsWith('.aether.test') ? lookup('127.0.0.1', opts, done) : lookup(name, opts, done))

export default {
  'domain: a sandbox, its commands and files': async () => {
    const box = keep(await Sandbox.create())
    assert.equal(box.sandboxDomain, process.env.E2B_DOMAIN)
    assert.equal((await box.commands.run('echo here')).stdout, 'here\n')
    await box.files.write('a', 'text')
    assert.equal(await (await fetch(await box.downloadUrl('a'))).text(), 'text')
    assert.equal((await box.runCode('6 * 7')).text, '42')
    await box.kill()
  },
  'domain: a port': async () => {
    const box = keep(await Sandbox.create())
    const handle = await said(box, 'echo hello > index.html; python3 -u -m http.server 8000', 'Serving')
    handle.wait().catch(() => {})
    const r = await fetch(`https://${box.getHost(8000)}/`)
    assert.deepEqual([r.status, await r.text()], [200, 'hello\n'])
    await box.kill()
    assert.equal((await fetch(`https://${box.getHost(8000)}/`)).status, 502)
  },
}
