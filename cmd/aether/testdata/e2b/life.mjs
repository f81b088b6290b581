// Sandboxes: how they are made, found, kept and ended.
import assert from 'node:assert/strict'
import { AuthenticationError, NotFoundError, Sandbox, SandboxNotFoundError } from 'e2b'
import { api, call, happened, keep, key, make, said, shared } from './help.mjs'

const listed = async (opts) => {
  const pages = Sandbox.list(opts), all = []
  while (pages.hasNext) all.push(...(await pages.nextItems()))
  return all.map((s) => s.sandboxId)
}
const soon = (box) => box.getInfo().then((i) => i.endAt - Date.now())
const mark = `run-${Date.now()}`

export default {
  'create: an id, and a guest service that answers': async () => {
    const box = await make()
    assert.match(box.sandboxId, /^[0-9a-z]{20}$/)
    assert.equal(await box.isRunning(), true)
    assert.equal(await box.kill(), true)
  },
  'create: metadata is told again': async () => {
    const box = await make({ metadata: { user: 'ada', 'odd key': 'a&b=c %' } })
    assert.deepEqual((await box.getInfo()).metadata, { user: 'ada', 'odd key': 'a&b=c %' })
    await box.kill()
  },
  'create: environment of every command': async () => {
    const box = await make({ envs: { GREETING: 'hello' } })
    assert.equal((await box.commands.run('echo $GREETING')).stdout, 'hello\n')
    assert.equal((await box.commands.run('echo $GREETING', { envs: { GREETING: 'bye' } })).stdout, 'bye\n')
    await box.kill()
  },
  'create: the user and its home': async () => {
    const box = await shared()
    assert.equal((await box.commands.run('echo $(whoami) $(pwd) $HOME')).stdout, 'user /home/user /home/user\n')
  },
  'create: an unknown template is refused': async () => {
    await assert.rejects(Sandbox.create('no-such-template'), /404/)
  },
  'create: base by its name': async () => {
    const box = await make('base')
    assert.equal((await box.getInfo()).templateId, 'base')
    await box.kill()
  },
  'create: no time to live is refused': async () => {
    assert.equal((await call('POST', '/v2/sandboxes', { templateID: 'base', timeout: 0 })).status, 400)
  },
  'create: without a body': async () => {
    const r = await call('POST', '/v2/sandboxes')
    assert.equal(r.status, 201)
    assert.equal((await call('DELETE', `/sandboxes/${r.body.sandboxID}`)).status, 204)
  },
  'create: by the path of older clients': async () => {
    const r = await call('POST', '/sandboxes', { templateID: 'base', timeout: 60, secure: true })
    assert.equal(r.status, 201)
    assert.deepEqual([r.body.clientID, r.body.envdAccessToken.length, r.body.envdVersion], ['00000000', 64, '0.6.4'])
    assert.equal((await call('DELETE', `/sandboxes/${r.body.sandboxID}`)).status, 204)
  },
  'create: what is not there is refused with its reason': async () => {
    for (const [field, value] of [['mcp', { a: {} }], ['iam', { tokens: {} }]]) {
      const r = await call('POST', '/v2/sandboxes', { templateID: 'base', [field]: value })
      assert.deepEqual([r.status, r.body.code, r.body.message.startsWith(`${field}:`)], [501, 501, true])
    }
  },
  'not here: told with the reason': async () => {
    for (const [method, path] of [['POST', '/v2/templates'], ['POST', '/templates'], ['PATCH', '/v2/templates/x'],
      ['GET', '/volumecontent/x/file'], ['GET', '/teams'], ['GET', '/api-keys']]) {
      const r = await call(method, path, method === 'POST' ? {} : undefined)
      assert.deepEqual([r.status, r.body.code, r.body.message.length > 20], [501, 501, true], path)
    }
  },
  'key: a wrong one is refused': async () => {
    await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  },
  'key: none is refused': async () => {
    const r = await call('GET', '/v2/sandboxes', undefined, {})
    assert.deepEqual([r.status, r.body.code], [401, 401])
  },
  'key: as a bearer token': async () => {
    assert.equal((await call('GET', '/v2/sandboxes', undefined, { Authorization: `Bearer ${key}` })).status, 200)
  },
  'health: of the control plane': async () => assert.equal((await fetch(`${api}/health`)).status, 204),
  'info: what is enforced': async () => {
    const info = await (await shared()).getInfo()
    assert.deepEqual([info.state, info.cpuCount > 0, info.memoryMB > 0, info.lifecycle, info.allowInternetAccess], ['running', true, true, { onTimeout: 'kill', autoResume: false }, true])
    assert.ok(info.endAt > info.startedAt)
  },
  'info: of a sandbox that is not there': async () => {
    await assert.rejects(Sandbox.getInfo('nosuchsandbox'), SandboxNotFoundError)
  },
  'list: what runs': async () => assert.ok((await listed()).includes((await shared()).sandboxId)),
  'list: by metadata': async () => {
    const box = await make({ metadata: { mark, odd: 'ä & b=c' } })
    assert.deepEqual(await listed({ query: { metadata: { mark, odd: 'ä & b=c' } } }), [box.sandboxId])
    assert.deepEqual(await listed({ query: { metadata: { mark, odd: 'other' } } }), [])
    await box.kill()
  },
  'list: by state': async () => {
    const box = await make({ metadata: { mark: `${mark}-state` } })
    const query = { metadata: { mark: `${mark}-state` } }
    await box.pause()
    assert.deepEqual(await listed({ query: { ...query, state: ['paused'] } }), [box.sandboxId])
    assert.deepEqual(await listed({ query: { ...query, state: ['running'] } }), [])
    assert.deepEqual(await listed({ query }), [box.sandboxId])
    await box.kill()
    assert.deepEqual(await listed({ query }), [])
  },
  'list: by template': async () => {
    const id = (await shared()).sandboxId
    assert.ok((await listed({ query: { template: 'base' } })).includes(id))
    assert.ok(!(await listed({ query: { template: 'code-interpreter-v1' } })).includes(id))
  },
  'list: started after': async () => {
    const id = (await shared()).sandboxId
    assert.ok((await listed({ query: { startedAfter: new Date(0) } })).includes(id))
    assert.deepEqual(await listed({ query: { startedAfter: new Date(Date.now() + 3600_000) } }), [])
  },
  'list: pages, in both orders, with the number that runs': async () => {
    const boxes = [], metadata = { mark: `${mark}-pages` }
    for (let i = 0; i < 3; i++) boxes.push((await make({ metadata })).sandboxId)
    assert.deepEqual(await listed({ query: { metadata }, limit: 1, order: 'asc' }), boxes)
    assert.deepEqual(await listed({ query: { metadata }, limit: 2 }), boxes.toReversed())
    const r = await call('GET', `/v2/sandboxes?limit=1&metadata=${encodeURIComponent(`mark=${metadata.mark}`)}`)
    assert.deepEqual([r.headers.get('x-total-running'), r.body.length, r.headers.has('x-next-token')], ['3', 1, true])
    await Promise.all(boxes.map((id) => Sandbox.kill(id)))
  },
  'list: of older clients': async () => {
    const r = await call('GET', '/sandboxes')
    assert.ok(r.status === 200 && r.body.some((s) => s.state === 'running'))
  },
  'list: a wrong filter is refused': async () => {
    for (const q of ['limit=0', 'limit=101', 'state=dead', 'order=up', 'startedAfter=now']) assert.equal((await call('GET', `/v2/sandboxes?${q}`)).status, 400, q)
  },
  'timeout: longer and shorter': async () => {
    const box = await make({ timeoutMs: 60_000 })
    await box.setTimeout(600_000)
    assert.ok((await soon(box)) > 500_000)
    await box.setTimeout(30_000)
    assert.ok((await soon(box)) < 31_000)
    await box.kill()
  },
  'timeout: its end ends the sandbox': async () => {
    const box = await make()
    const ended = happened(box.sandboxId, 'ended')
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/timeout`, { timeout: 0 })).status, 204)
    await ended
    assert.equal(await box.isRunning(), false)
  },
  'refresh: longer, never shorter': async () => {
    const box = await make({ timeoutMs: 60_000 })
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/refreshes`, { duration: 10 })).status, 204)
    assert.ok((await soon(box)) > 15_000)
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/refreshes`, { duration: 600 })).status, 204)
    assert.ok((await soon(box)) > 500_000)
    await box.kill()
  },
  'connect: by id, and only longer': async () => {
    const box = await make({ timeoutMs: 300_000 })
    const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 1000 })
    assert.equal((await again.commands.run('echo here')).stdout, 'here\n')
    assert.ok((await soon(box)) > 200_000)
    await again.connect({ timeoutMs: 900_000 })
    assert.ok((await soon(box)) > 800_000)
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/connect`, { timeout: 10 })).status, 200)
    await box.kill()
  },
  'connect: to a sandbox that is not there': async () => {
    await assert.rejects(Sandbox.connect('nosuchsandbox'), NotFoundError)
  },
  'kill: once': async () => {
    const box = await make()
    assert.equal(await box.kill(), true)
    assert.equal(await box.kill(), false)
    assert.equal(await Sandbox.kill('nosuchsandbox'), false)
    assert.equal(await box.isRunning(), false)
  },
  'kill: a command fails afterwards': async () => {
    const box = await make()
    await box.kill()
    await assert.rejects(box.commands.run('true'))
    await assert.rejects(box.files.read('/etc/passwd'))
  },
  'pause: memory goes on where it was': async () => {
    const box = await make()
    await box.commands.run('mkfifo /tmp/in')
    const handle = await said(box, 'n=41; echo ready; read line < /tmp/in; n=$((n+1)); echo $n > /tmp/out; sleep 100', 'ready')
    handle.wait().catch(() => {})
    assert.equal(await box.pause(), true)
    assert.equal((await box.getInfo()).state, 'paused')
    await box.connect()
    assert.equal((await box.getInfo()).state, 'running')
    await box.commands.run('echo go > /tmp/in; until [ -s /tmp/out ]; do sleep 0.01; done')
    assert.equal(await box.files.read('/tmp/out'), '42\n')
    await box.kill()
  },
  'pause: twice is told': async () => {
    const box = await make()
    assert.equal(await box.pause(), true)
    assert.equal(await box.pause(), false)
    await assert.rejects(Sandbox.pause('nosuchsandbox'), NotFoundError)
    assert.equal(await box.kill(), true)
  },
  'pause: files alone': async () => {
    const box = await make()
    await box.files.write('/home/user/kept', 'kept')
    const handle = await said(box, 'echo ready; sleep 1000', 'ready')
    handle.wait().catch(() => {})
    assert.equal(await box.pause({ keepMemory: false }), true)
    await box.connect()
    assert.equal(await box.files.read('/home/user/kept'), 'kept')
    assert.deepEqual(await box.commands.list(), [])
    await box.kill()
  },
  'pause: resumed with files alone': async () => {
    const box = await make()
    await box.files.write('/home/user/kept', 'kept')
    const handle = await said(box, 'echo ready; sleep 1000', 'ready')
    handle.wait().catch(() => {})
    await box.pause()
    await box.connect({ onResume: 'reboot' })
    assert.equal(await box.files.read('/home/user/kept'), 'kept')
    assert.deepEqual(await box.commands.list(), [])
    await box.kill()
  },
  'pause: by a static method, and resumed by id': async () => {
    const box = await make()
    await Sandbox.pause(box.sandboxId)
    const again = await Sandbox.connect(box.sandboxId)
    assert.equal((await again.commands.run('echo back')).stdout, 'back\n')
    await again.kill()
  },
  'resume: of older clients': async () => {
    const box = await make()
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/resume`, { timeout: 60 })).status, 409)
    await box.pause()
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/resume`, { timeout: 60 })).status, 201)
    await box.kill()
  },
  'auto-pause: at the end of its time': async () => {
    const box = await make({ lifecycle: { onTimeout: 'pause' } })
    assert.deepEqual((await box.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
    const paused = happened(box.sandboxId, 'paused')
    await call('POST', `/sandboxes/${box.sandboxId}/timeout`, { timeout: 0 })
    await paused
    assert.equal((await box.getInfo()).state, 'paused')
    assert.equal(await box.isRunning(), false)
    await box.kill()
  },
  'auto-pause: files alone': async () => {
    const box = await make({ lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
    await box.files.write('/home/user/kept', 'kept')
    const handle = await said(box, 'echo ready; sleep 1000', 'ready')
    handle.wait().catch(() => {})
    const paused = happened(box.sandboxId, 'paused')
    await call('POST', `/sandboxes/${box.sandboxId}/timeout`, { timeout: 0 })
    await paused
    await box.connect()
    assert.deepEqual([await box.files.read('/home/user/kept'), await box.commands.list()], ['kept', []])
    await box.kill()
  },
  'auto-resume: by a command': async () => {
    const box = await make({ lifecycle: { onTimeout: 'pause', autoResume: true } })
    assert.equal((await box.getInfo()).lifecycle.autoResume, true)
    await box.pause()
    assert.equal((await box.commands.run('echo woken')).stdout, 'woken\n')
    assert.equal((await box.getInfo()).state, 'running')
    await box.kill()
  },
  'auto-resume: not without being asked for': async () => {
    const box = await make()
    await box.pause()
    await assert.rejects(box.commands.run('true'))
    assert.equal((await box.getInfo()).state, 'paused')
    await box.kill()
  },
  'fork: goes on apart from its source': async () => {
    const box = await make({ metadata: { mark: 'forked' } })
    await box.files.write('/home/user/f', 'before')
    const [child] = (await box.fork()).map(keep)
    assert.notEqual(child.sandboxId, box.sandboxId)
    await child.files.write('/home/user/f', 'child')
    assert.deepEqual([await box.files.read('/home/user/f'), await child.files.read('/home/user/f')], ['before', 'child'])
    assert.deepEqual((await child.getInfo()).metadata, { mark: 'forked' })
    await Promise.all([box.kill(), child.kill()])
  },
  'fork: several, with what runs': async () => {
    const box = await make()
    await box.commands.run('mkfifo /tmp/in')
    const handle = await said(box, 'n=7; echo ready; read x < /tmp/in; echo $((n*6)) > /tmp/out; sleep 100', 'ready')
    handle.wait().catch(() => {})
    const children = (await Sandbox.fork(box.sandboxId, { count: 4, timeoutMs: 60_000 })).map(keep)
    assert.equal(new Set(children.map((c) => c.sandboxId)).size, 4)
    for (const child of children) {
      await child.commands.run('echo go > /tmp/in; until [ -s /tmp/out ]; do sleep 0.01; done')
      assert.equal(await child.files.read('/tmp/out'), '42\n')
    }
    assert.equal(await box.files.exists('/tmp/out'), false)
    await Promise.all([box, ...children].map((b) => b.kill()))
  },
  'fork: tokens are of one sandbox each': async () => {
    const box = await make()
    const [child] = (await box.fork()).map(keep)
    const token = (b) => call('GET', `/sandboxes/${b.sandboxId}`).then((r) => r.body.envdAccessToken)
    assert.notEqual(await token(box), await token(child))
    const r = await fetch(`${api}/envs`, { headers: { 'E2b-Sandbox-Id': child.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': await token(box) } })
    assert.equal(r.status, 401)
    await Promise.all([box.kill(), child.kill()])
  },
  'fork: too many, or of nothing, is refused': async () => {
    const box = await shared()
    assert.equal((await call('POST', `/sandboxes/${box.sandboxId}/fork`, { count: 101 })).status, 400)
    await assert.rejects(Sandbox.fork('nosuchsandbox'), SandboxNotFoundError)
  },
  'snapshot: kept, listed, started from, deleted': async () => {
    const box = await make()
    await box.files.write('/home/user/f', 'then')
    const snapshot = await box.createSnapshot()
    await box.files.write('/home/user/f', 'now')
    assert.deepEqual((await box.listSnapshots().nextItems()).map((s) => s.snapshotId), [snapshot.snapshotId])
    await box.kill()
    const again = await make(snapshot.snapshotId)
    assert.equal(await again.files.read('/home/user/f'), 'then')
    await again.kill()
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
    await assert.rejects(Sandbox.create(snapshot.snapshotId), /404/)
  },
  'snapshot: by a name': async () => {
    const box = await make(), name = `named-${Date.now()}`
    const snapshot = await box.createSnapshot({ name })
    assert.deepEqual(snapshot.names, [name])
    assert.deepEqual(await Sandbox.listSnapshots({ name }).nextItems(), [snapshot])
    const again = await make(name)
    assert.equal((await again.getInfo()).templateId, snapshot.snapshotId)
    await Promise.all([box.kill(), again.kill(), Sandbox.deleteSnapshot(snapshot.snapshotId)])
  },
  'metrics: of one and of many': async () => {
    const box = await shared()
    const [m] = await box.getMetrics()
    assert.ok(m.memTotal >= m.memUsed && m.memUsed > 0 && m.cpuCount > 0 && m.diskTotal > 0, JSON.stringify(m))
    assert.deepEqual(await box.getMetrics({ end: new Date(1000) }), [])
    const r = await call('GET', `/sandboxes/metrics?sandbox_ids=${box.sandboxId},nosuchsandbox`)
    assert.deepEqual(Object.keys(r.body.sandboxes), [box.sandboxId])
  },
  'logs: what happened to a sandbox': async () => {
    const box = await shared()
    const now = await call('GET', `/v2/sandboxes/${box.sandboxId}/logs?limit=1`)
    assert.deepEqual([now.status, now.body.logs.length, now.body.logs[0].message], [200, 1, 'sandbox created'])
    const old = await call('GET', `/sandboxes/${box.sandboxId}/logs`)
    assert.ok(old.body.logs[0].line && old.body.logEntries[0].level === 'info')
  },
}
