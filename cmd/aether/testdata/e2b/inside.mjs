// Commands, terminals and files of a sandbox.
import assert from 'node:assert/strict'
import { CommandExitError, FilesystemEventType, FileType, InvalidArgumentError, NotFoundError, Sandbox, TimeoutError } from 'e2b'
import { api, make, said, shared } from './help.mjs'

// watched waits for an event of a directory while something is done.
async function watched(box, dir, want, act, opts) {
  let tell
  const seen = new Promise((resolve) => { tell = resolve })
  const watch = await box.files.watchDir(dir, (e) => { if (want(e)) tell(e) }, opts)
  await act()
  const event = await seen
  await watch.stop()
  return event
}

export default {
  'run: output and errors apart': async () => {
    const r = await (await shared()).commands.run('echo out; echo err >&2')
    assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['out\n', 'err\n', 0])
  },
  'run: a status that is not zero is an error': async () => {
    await assert.rejects((await shared()).commands.run('echo before; exit 42'), (e) => e instanceof CommandExitError && e.exitCode === 42 && e.stdout === 'before\n')
  },
  'run: a directory and an environment': async () => {
    const r = await (await shared()).commands.run('echo $(pwd) $A', { cwd: '/tmp', envs: { A: 'b' } })
    assert.equal(r.stdout, '/tmp b\n')
  },
  'run: a directory that is not there': async () => {
    await assert.rejects((await shared()).commands.run('true', { cwd: '/nowhere' }), InvalidArgumentError)
  },
  'run: as root': async () => {
    const r = await (await shared()).commands.run('id -u; touch /etc/made && echo may', { user: 'root' })
    assert.equal(r.stdout, '0\nmay\n')
  },
  'run: output as it comes': async () => {
    const pieces = []
    const handle = await said(await shared(), 'echo one; read x; echo two', 'one', { stdin: true, onStderr: () => {} })
    pieces.push(handle.stdout)
    await handle.sendStdin('\n')
    await handle.wait()
    assert.deepEqual([pieces[0], handle.stdout], ['one\n', 'one\ntwo\n'])
  },
  'run: a million bytes': async () => {
    const r = await (await shared()).commands.run('head -c 1000000 /dev/zero | tr "\\0" x')
    assert.equal(r.stdout.length, 1000000)
  },
  'run: too long is ended': async () => {
    await assert.rejects((await shared()).commands.run('sleep 600', { timeoutMs: 300 }), TimeoutError)
  },
  'run: many at once': async () => {
    const box = await shared()
    const list = await Promise.all(Array.from({ length: 20 }, (_, i) => box.commands.run(`echo ${i}`)))
    assert.deepEqual(list.map((r) => r.stdout), Array.from({ length: 20 }, (_, i) => `${i}\n`))
  },
  'background: listed, and killed': async () => {
    const box = await shared()
    const handle = await said(box, 'echo ready; sleep 1000', 'ready')
    assert.ok((await box.commands.list()).some((p) => p.pid === handle.pid && p.args.some((a) => a.includes('sleep 1000'))))
    assert.equal(await handle.kill(), true)
    await assert.rejects(handle.wait(), CommandExitError)
    assert.equal(await box.commands.kill(handle.pid), false)
  },
  'background: goes on without its client, and is found again': async () => {
    const box = await shared()
    const handle = await said(box, 'echo ready; read x; echo "got $x"', 'ready', { stdin: true })
    handle.wait().catch(() => {})
    await handle.disconnect()
    const again = await (await Sandbox.connect(box.sandboxId)).commands.connect(handle.pid)
    await box.commands.sendStdin(handle.pid, 'word\n')
    assert.match((await again.wait()).stdout, /got word\n$/)
  },
  'stdin: sent and closed': async () => {
    const box = await shared()
    const handle = await box.commands.run('cat', { background: true, stdin: true })
    await box.commands.sendStdin(handle.pid, 'some text')
    await box.commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).stdout, 'some text')
  },
  'terminal: input, size and end': async () => {
    const box = await shared()
    let text = '', tell
    const sized = new Promise((resolve) => { tell = resolve })
    const terminal = await box.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (d) => { text += Buffer.from(d).toString(); if (text.includes('40 100')) tell() } })
    await box.pty.resize(terminal.pid, { cols: 100, rows: 40 })
    await box.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size\n'))
    await sized
    await box.pty.sendInput(terminal.pid, new TextEncoder().encode('exit 3\n'))
    await assert.rejects(terminal.wait(), (e) => e.exitCode === 3)
  },
  'terminal: killed': async () => {
    const box = await shared()
    const terminal = await box.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: () => {} })
    assert.equal(await box.pty.kill(terminal.pid), true)
    await terminal.wait().catch(() => {})
  },
  'files: written and read': async () => {
    const { files } = await shared()
    const info = await files.write('notes/a.txt', 'contents €')
    assert.deepEqual([info.path, info.name, info.type], ['/home/user/notes/a.txt', 'a.txt', 'file'])
    assert.equal(await files.read('/home/user/notes/a.txt'), 'contents €')
    await assert.rejects(files.read('/home/user/missing'), NotFoundError)
  },
  'files: bytes, blobs and streams': async () => {
    const { files } = await shared()
    const bytes = new Uint8Array(3 << 20).map((_, i) => (i * 31) & 255)
    await files.write('bytes', bytes.buffer)
    assert.deepEqual(Buffer.from(await files.read('bytes', { format: 'bytes' })), Buffer.from(bytes))
    assert.equal((await files.read('bytes', { format: 'blob' })).size, bytes.length)
    await files.write('streamed', new Blob([bytes]).stream())
    let size = 0
    for await (const piece of await files.read('streamed', { format: 'stream' })) size += piece.length
    assert.equal(size, bytes.length)
  },
  'files: compressed on their way': async () => {
    const { files } = await shared()
    await files.write('packed', 'packed', { gzip: true })
    assert.equal(await files.read('packed', { gzip: true }), 'packed')
  },
  'files: several at once': async () => {
    const { files } = await shared()
    const list = await files.write([{ path: 'm/a', data: 'A' }, { path: 'm/b', data: 'B' }])
    assert.deepEqual(list.map((f) => f.path), ['/home/user/m/a', '/home/user/m/b'])
    assert.equal(await files.read('m/b'), 'B')
  },
  'files: what is there': async () => {
    const { files } = await shared()
    await files.write('info', '12345')
    const entry = await files.getInfo('info')
    assert.deepEqual([entry.type, entry.size, entry.permissions, entry.owner], [FileType.FILE, 5, '-rw-r--r--', 'user'])
    assert.deepEqual([await files.exists('info'), await files.exists('missing')], [true, false])
  },
  'files: directories, names and ends': async () => {
    const { files } = await shared()
    assert.equal(await files.makeDir('tree/sub'), true)
    assert.equal(await files.makeDir('tree/sub'), false)
    await files.write('tree/sub/f', 'x')
    assert.deepEqual((await files.list('tree', { depth: 2 })).map((e) => e.path), ['/home/user/tree/sub', '/home/user/tree/sub/f'])
    assert.equal((await files.rename('tree/sub/f', 'tree/g')).path, '/home/user/tree/g')
    await files.remove('tree')
    assert.equal(await files.exists('tree'), false)
    await assert.rejects(files.list('tree'), NotFoundError)
  },
  'files: as root, and not as the user': async () => {
    const { files } = await shared()
    await files.write('/root/secret', 'x', { user: 'root' })
    assert.equal(await files.read('/root/secret', { user: 'root' }), 'x')
    await assert.rejects(files.read('/root/secret'))
  },
  'files: directories that are missing are made for the user anywhere': async () => {
    const { files, commands } = await shared()
    assert.equal((await files.write('/workspace/src/a.txt', 'a')).path, '/workspace/src/a.txt')
    assert.equal(await files.makeDir('/made/for/me'), true)
    assert.equal(await files.makeDir('/mine'), true)
    assert.equal((await commands.run('stat -c %U:%G /workspace /workspace/src/a.txt /made /made/for/me /mine; echo b > /workspace/src/b')).stdout, 'user:user\n'.repeat(5))
    await assert.rejects(files.write('/etc/not-mine', 'x'))
  },
  'files: metadata': async () => {
    const { files } = await shared()
    const info = await files.write('tagged', 'x', { metadata: { origin: 'client' } })
    assert.deepEqual([info.metadata, (await files.getInfo('tagged')).metadata], [{ origin: 'client' }, { origin: 'client' }])
  },
  'watch: made, written, renamed and removed': async () => {
    const box = await shared()
    await box.files.makeDir('watched')
    for (const [type, name, act] of [
      [FilesystemEventType.CREATE, 'new', () => box.files.write('watched/new', 'x')], [FilesystemEventType.WRITE, 'new', () => box.files.write('watched/new', 'y')],
      [FilesystemEventType.RENAME, 'new', () => box.files.rename('watched/new', 'watched/old')], [FilesystemEventType.REMOVE, 'old', () => box.files.remove('watched/old')],
    ]) await watched(box, 'watched', (e) => e.type === type && e.name === name, act)
  },
  'watch: below, with entries': async () => {
    const box = await shared()
    await box.files.makeDir('below/sub')
    const event = await watched(box, 'below', (e) => e.name === 'sub/f' && e.entry, () => box.files.write('below/sub/f', 'x'), { recursive: true, includeEntry: true })
    assert.equal(event.entry.path, '/home/user/below/sub/f')
  },
  'watch: a directory that is not there': async () => {
    await assert.rejects((await shared()).files.watchDir('missing', () => {}), NotFoundError)
  },
  'git: a repository': async () => {
    const box = await shared()
    await box.git.init('/home/user/repo')
    await box.git.configureUser('Ada', 'ada@example.com')
    await box.files.write('repo/a', 'x')
    await box.git.add('/home/user/repo')
    await box.git.commit('/home/user/repo', 'first')
    assert.equal((await box.git.status('/home/user/repo')).isClean, true)
  },
  'signed: a download': async () => {
    const box = await shared()
    await box.files.write('signed', 'for all')
    assert.equal(await (await fetch(await box.downloadUrl('signed', { useSignatureExpiration: 60 }))).text(), 'for all')
    assert.equal(await (await fetch(await box.downloadUrl('/home/user/signed', { user: 'user' }))).text(), 'for all')
  },
  'signed: an upload': async () => {
    const box = await shared()
    const form = new FormData()
    form.append('file', new Blob(['uploaded']), 'up')
    const r = await fetch(await box.uploadUrl('/home/user/up'), { method: 'POST', body: form })
    assert.equal(r.status, 200)
    assert.equal(await box.files.read('up'), 'uploaded')
  },
  'signed: for another file, another operation, or too late': async () => {
    const box = await shared()
    const url = await box.downloadUrl('/home/user/signed')
    const status = async (u, init) => (await fetch(u, init)).status
    assert.equal(await status(url.replace('signed', 'up')), 401)
    assert.equal(await status(url, { method: 'POST', body: 'x' }), 401)
    assert.equal(await status(await box.downloadUrl('/home/user/signed', { useSignatureExpiration: -100 })), 401)
    const named = { headers: { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983' } }
    assert.equal(await status(url, named), 200)
    assert.equal(await status(url.replace('signed', 'up'), named), 401)
  },
  'token: none or a wrong one is refused': async () => {
    const box = await shared()
    for (const token of [undefined, 'f'.repeat(64)]) {
      const headers = { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983', ...(token && { 'X-Access-Token': token }) }
      assert.equal((await fetch(`${api}/envs`, { headers })).status, 401)
      assert.equal((await fetch(`${api}/health`, { headers })).status, 204)
    }
  },
  'token: the daemon\'s part of the guest service is not for clients': async () => {
    const box = await shared()
    for (const path of ['/init', '/aether/ports/80']) {
      const r = await fetch(api + path, { method: 'POST', body: '{}', headers: { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': box.envdAccessToken } })
      assert.equal(r.status, 404, path)
    }
  },
}
