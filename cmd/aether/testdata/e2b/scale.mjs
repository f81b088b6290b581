// Many at once.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { keep, make } from './help.mjs'

// elsewhere is the same sandbox by another name of the daemon: the client has 200 connections
// to each, for commands and watches together.
async function elsewhere(box) {
  const url = process.env.E2B_SANDBOX_URL
  process.env.E2B_SANDBOX_URL = url.replace('127.0.0.1', 'localhost')
  try {
    return await Sandbox.connect(box.sandboxId)
  } finally {
    process.env.E2B_SANDBOX_URL = url
  }
}

export default {
  'scale: a hundred forks in one call': async () => {
    const box = await make()
    await box.files.write('/tmp/before', 'before')
    const forks = await box.fork({ count: 100 })
    forks.forEach(keep)
    assert.equal(new Set(forks.map((f) => f.sandboxId)).size, 100)
    const said = await Promise.all(forks.map((f, i) => f.commands.run(`echo ${i} > /tmp/n; cat /tmp/before /tmp/n`)))
    said.forEach((r, i) => assert.equal(r.stdout, `before${i}\n`))
    await Promise.all([...forks, box].map((b) => b.kill()))
  },
  'scale: fifty terminals': async () => {
    const box = await make()
    const all = await Promise.all(Array.from({ length: 50 }, async (_, i) => {
      let heard = ''
      const handle = await box.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (d) => { heard += new TextDecoder().decode(d) } })
      await box.pty.sendInput(handle.pid, new TextEncoder().encode(`echo $((${i} + 1000))-here; exit\n`))
      await handle.wait()
      return heard
    }))
    all.forEach((heard, i) => assert.ok(heard.includes(`${i + 1000}-here`), heard))
    await box.kill()
  },
  'scale: two hundred watches, some of them of the same directories': async () => {
    const box = await make()
    await box.commands.run('mkdir -p /tmp/w && cd /tmp/w && seq 100 | xargs mkdir')
    const other = await elsewhere(box)
    const came = [], seen = []
    const handles = await Promise.all(Array.from({ length: 200 }, async (_, i) => {
      let tell
      seen.push([])
      came.push(new Promise((resolve) => { tell = resolve }))
      return (i < 100 ? box : other).files.watchDir(`/tmp/w/${(i % 100) + 1}`, (e) => { seen[i].push(`${e.type} ${e.name}`); if (e.name === 'last') tell() }, { timeoutMs: 0 })
    }))
    await box.files.write(Array.from({ length: 100 }, (_, i) => ({ path: `/tmp/w/${i + 1}/new`, data: 'x' })))
    await Promise.all(handles.splice(0, 50).map((h) => h.stop()))
    await box.commands.run('cd /tmp/w && for d in *; do mkdir $d/last; done')
    await Promise.all(came.slice(50))
    seen.slice(50).forEach((events) => assert.deepEqual(events, ['create new', 'write new', 'create last']))
    await Promise.all(handles.map((h) => h.stop()))
    await box.kill()
  },
}
