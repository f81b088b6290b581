// Drives a guest service with the official client in its debug mode, which needs
// no control plane. E2B_SANDBOX_URL says where the service is; WORKDIR is a
// directory in the sandbox that may be filled. Each step prints one line.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandExitError, FilesystemEventType, FileType, NotFoundError, InvalidArgumentError, Sandbox, TimeoutError } from 'e2b'

const dir = process.env.WORKDIR ?? '/tmp/aether-client'
// patience bounds what has to happen: a host may be many times slower than usual.
const patience = 5 * 60_000
const sandbox = await Sandbox.create({ debug: true, requestTimeoutMs: patience })
const { files, pty } = sandbox
const commands = Object.create(sandbox.commands)
commands.run = (command, options) => sandbox.commands.run(command, { timeoutMs: patience, ...options })
const steps = []
const step = (name, run) => steps.push([name, run])

async function until(what, check) {
  for (const end = Date.now() + patience; Date.now() < end; await sleep(25)) {
    if (await check()) return
  }
  assert.fail(`no sign of ${what}`)
}

step('health', async () => assert.equal(await sandbox.isRunning(), true))

step('run: output, environment, directory', async () => {
  await files.makeDir(dir)
  const r = await commands.run('echo "$GREETING from $(pwd)"; echo problem >&2', { envs: { GREETING: 'hello' }, cwd: dir })
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], [`hello from ${dir}\n`, 'problem\n', 0])
})

step('run: exit code', async () => {
  await assert.rejects(commands.run('echo before; exit 42'), (e) => e instanceof CommandExitError && e.exitCode === 42 && e.stdout === 'before\n')
})

step('run: unicode cut between pieces', async () => {
  const r = await commands.run(`printf '\\342\\202'; sleep 0.1; printf '\\254'`)
  assert.equal(r.stdout, '€')
})

step('run: a directory that does not exist', async () => {
  await assert.rejects(commands.run('true', { cwd: `${dir}/missing` }), InvalidArgumentError)
})

step('run: streams while it runs', async () => {
  const seen = []
  // Each line waits until the one before it was seen.
  await commands.run(`for i in 1 2 3; do echo $i; until [ -e ${dir}/seen-$i ]; do sleep 0.02; done; done`, {
    onStdout: async (s) => { await files.write(`${dir}/seen-${seen.push(s)}`, '') },
  })
  assert.deepEqual(seen, ['1\n', '2\n', '3\n'])
})

step('run: large output', async () => {
  const r = await commands.run('head -c 5000000 /dev/zero | tr "\\0" x')
  assert.equal(r.stdout.length, 5000000)
})

step('timeout ends the command', async () => {
  // It is given more time until it has begun before that was over.
  for (let timeoutMs = 700; !(await files.exists(`${dir}/pid`)) && timeoutMs < patience; timeoutMs *= 3) {
    await assert.rejects(commands.run(`echo $$ > ${dir}/pid.new; mv ${dir}/pid.new ${dir}/pid; sleep 600`, { timeoutMs }), TimeoutError)
  }
  const pid = (await files.read(`${dir}/pid`)).trim()
  await until('the end of the command', async () => (await commands.run(`kill -0 ${pid} 2>/dev/null && echo lives || true`)).stdout === '')
})

step('background: list, connect, kill', async () => {
  const handle = await commands.run('sleep 60', { background: true })
  const found = (await commands.list()).find((p) => p.pid === handle.pid)
  assert.deepEqual([found.cmd, found.args], ['/bin/bash', ['-l', '-c', 'sleep 60']])
  await handle.disconnect()
  const again = await commands.connect(handle.pid, { timeoutMs: patience })
  assert.equal(await again.kill(), true)
  await assert.rejects(again.wait(), CommandExitError)
  assert.equal(await commands.kill(handle.pid), false)
  await assert.rejects(commands.connect(999999), NotFoundError)
})

step('stdin', async () => {
  const handle = await commands.run('cat; echo end', { background: true, stdin: true })
  await commands.sendStdin(handle.pid, 'one\n')
  await commands.sendStdin(handle.pid, 'two\n')
  await commands.closeStdin(handle.pid)
  assert.equal((await handle.wait()).stdout, 'one\ntwo\nend\n')
})

step('terminal: input, resize, end', async () => {
  let text = ''
  const shown = (what) => until(what, () => text.includes(what))
  const terminal = await pty.create({ cols: 80, rows: 24, cwd: dir, timeoutMs: patience, onData: (d) => { text += Buffer.from(d).toString() } })
  const type = (line) => pty.sendInput(terminal.pid, Buffer.from(line + '\n'))
  await type('echo "size: $(stty size) term: $TERM"')
  await shown('size: 24 80 term: xterm-256color')
  await pty.resize(terminal.pid, { cols: 132, rows: 50 })
  await type('echo "size: $(stty size)"')
  await shown('size: 50 132')
  await type('exit 0')
  assert.equal((await terminal.wait()).exitCode, 0)
  const other = await pty.create({ cols: 80, rows: 24, onData: () => {} })
  assert.equal(await pty.kill(other.pid), true)
})

step('files: write, read, exists, info', async () => {
  const path = `${dir}/deep/file.txt`
  const info = await files.write(path, 'contents €')
  assert.deepEqual([info.path, info.name, info.type], [path, 'file.txt', 'file'])
  assert.equal(await files.read(path), 'contents €')
  assert.equal(await files.exists(path), true)
  assert.equal(await files.exists(`${dir}/missing`), false)
  const entry = await files.getInfo(path)
  assert.deepEqual([entry.type, entry.size, entry.permissions], [FileType.FILE, 12, '-rw-r--r--'])
  assert.ok(Math.abs(entry.modifiedTime - Date.now()) < patience)
  await assert.rejects(files.read(`${dir}/missing`), NotFoundError)
  await assert.rejects(files.read(dir), InvalidArgumentError)
})

step('files: empty, binary, large, streamed, gzip', async () => {
  await files.write(`${dir}/empty`, '')
  assert.equal(await files.read(`${dir}/empty`), '')
  const bytes = new Uint8Array(3 << 20).map((_, i) => (i * 31) & 255)
  await files.write(`${dir}/bytes`, bytes.buffer)
  assert.deepEqual(Buffer.from(await files.read(`${dir}/bytes`, { format: 'bytes' })), Buffer.from(bytes))
  await files.write(`${dir}/streamed`, new Blob([bytes]).stream())
  let size = 0
  for await (const piece of await files.read(`${dir}/streamed`, { format: 'stream' })) size += piece.length
  assert.equal(size, bytes.length)
  await files.write(`${dir}/packed`, 'packed', { gzip: true })
  assert.equal(await files.read(`${dir}/packed`, { gzip: true }), 'packed')
})

step('files: several at once', async () => {
  const list = await files.write([{ path: `${dir}/m/a`, data: 'A' }, { path: `${dir}/m/b`, data: 'B' }])
  assert.deepEqual(list.map((f) => f.path), [`${dir}/m/a`, `${dir}/m/b`])
  assert.equal(await files.read(`${dir}/m/b`), 'B')
})

step('files: list, make, rename, remove', async () => {
  assert.equal(await files.makeDir(`${dir}/tree/sub`), true)
  assert.equal(await files.makeDir(`${dir}/tree/sub`), false)
  await files.write(`${dir}/tree/sub/f`, 'x')
  assert.deepEqual((await files.list(`${dir}/tree`)).map((e) => e.name), ['sub'])
  assert.deepEqual((await files.list(`${dir}/tree`, { depth: 2 })).map((e) => e.path), [`${dir}/tree/sub`, `${dir}/tree/sub/f`])
  const moved = await files.rename(`${dir}/tree/sub/f`, `${dir}/tree/g`)
  assert.deepEqual([moved.name, moved.path], ['g', `${dir}/tree/g`])
  await assert.rejects(files.rename(`${dir}/nothing`, `${dir}/x`), NotFoundError)
  await commands.run(`ln -s ${dir}/tree/g ${dir}/tree/link`)
  assert.equal((await files.getInfo(`${dir}/tree/link`)).symlinkTarget, `${dir}/tree/g`)
  await files.remove(`${dir}/tree`)
  assert.equal(await files.exists(`${dir}/tree`), false)
  await assert.rejects(files.list(`${dir}/tree`), NotFoundError)
})

step('files: metadata', async () => {
  const info = await files.write(`${dir}/tagged`, 'x', { metadata: { origin: 'client' } })
  // A file system without attributes keeps none, and says so.
  assert.deepEqual((await files.getInfo(`${dir}/tagged`)).metadata, info.metadata)
})

step('watch: flat, recursive, with entries', async () => {
  await files.makeDir(`${dir}/watched/sub`)
  const seen = []
  const has = (name, type) => seen.some((e) => e.name === name && e.type === type)
  const flat = await files.watchDir(`${dir}/watched`, (e) => { seen.push(e) })
  await files.write(`${dir}/watched/new`, 'x')
  await until('a creation', () => has('new', FilesystemEventType.CREATE))
  await files.write(`${dir}/watched/new`, 'y')
  await until('a write', () => has('new', FilesystemEventType.WRITE))
  await files.rename(`${dir}/watched/new`, `${dir}/watched/old`)
  await until('a rename', () => has('new', FilesystemEventType.RENAME))
  await files.remove(`${dir}/watched/old`)
  await until('a removal', () => has('old', FilesystemEventType.REMOVE))
  await flat.stop()

  seen.length = 0
  const deep = await files.watchDir(`${dir}/watched`, (e) => { seen.push(e) }, { recursive: true, includeEntry: true })
  await commands.run(`mkdir -p ${dir}/watched/sub/made && echo x > ${dir}/watched/sub/made/f`)
  await until('a creation below', () => has('sub/made/f', FilesystemEventType.CREATE))
  assert.ok(seen.some((e) => e.entry?.path === `${dir}/watched/sub/made`), 'no event has its entry')
  await deep.stop()
  await assert.rejects(files.watchDir(`${dir}/missing`, () => {}), NotFoundError)
})

step('many at once', async () => {
  const results = await Promise.all(Array.from({ length: 20 }, (_, i) => commands.run(`echo ${i}`)))
  assert.deepEqual(results.map((r) => r.stdout), Array.from({ length: 20 }, (_, i) => `${i}\n`))
})

let failed = 0
for (const [name, run] of steps) {
  try {
    await run()
    console.log(`ok   ${name}`)
  } catch (e) {
    failed++
    console.log(`FAIL ${name}\n${e.stack}`)
  }
}
await files.remove(dir)
process.exit(failed ? 1 : 0)
