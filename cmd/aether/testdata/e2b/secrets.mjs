// Secrets, and where they go.
import assert from 'node:assert/strict'
import { Sandbox, Secret, SecretNotFoundError } from 'e2b'
import { call } from './help.mjs'

export default {
  'secret: made, told of, changed and removed': async () => {
    const made = await Secret.create('MADE', 'hush-1')
    assert.deepEqual([made.name, made.version, made.metadata], ['MADE', 1, {}])
    const told = await Secret.getInfo('MADE')
    assert.deepEqual([told.secretId, told.createdAt], [made.secretId, made.createdAt])
    const changed = await Secret.update(made.secretId, 'hush-2')
    assert.ok(changed.version > 1 && changed.updatedAt > made.updatedAt)
    assert.deepEqual([await Secret.exists('MADE'), await Secret.destroy('MADE'), await Secret.exists('MADE'), await Secret.destroy('MADE')], [true, true, false, false])
  },
  'secret: no value is told': async () => {
    await Secret.create('TELLS_NOTHING', 'hush-3')
    for (const path of ['/secrets', '/secrets/TELLS_NOTHING']) assert.ok(!JSON.stringify((await call('GET', path)).body).includes('hush'))
    await Secret.destroy('TELLS_NOTHING')
  },
  'secret: metadata is kept until other is given': async () => {
    const made = await Secret.create('NOTED', 'hush-6', { metadata: { owner: 'ops', 'für': '' } })
    assert.deepEqual(made.metadata, { owner: 'ops', 'für': '' })
    assert.deepEqual((await Secret.update('NOTED', 'hush-7')).metadata, made.metadata)
    assert.deepEqual((await Secret.update('NOTED', 'hush-8', { metadata: { owner: 'dev' } })).metadata, { owner: 'dev' })
    assert.deepEqual([(await Secret.getInfo('NOTED')).metadata, (await Secret.list().nextItems()).find((s) => s.name === 'NOTED').metadata], [{ owner: 'dev' }, { owner: 'dev' }])
    assert.deepEqual((await Secret.update('NOTED', 'hush-9', { metadata: {} })).metadata, {})
    await Secret.destroy('NOTED')
  },
  'secret: lists in pages': async () => {
    await Promise.all(['P1', 'P2', 'P3'].map((n) => Secret.create(n, 'x')))
    const pages = []
    const all = Secret.list({ limit: 2 })
    while (all.hasNext) pages.push((await all.nextItems()).map((s) => s.name))
    assert.deepEqual(pages, [['P1', 'P2'], ['P3']])
    await Promise.all(['P1', 'P2', 'P3'].map((n) => Secret.destroy(n)))
  },
  'secret: what cannot be kept is refused': async () => {
    await Secret.create('TAKEN', 'x')
    await assert.rejects(Secret.update('NONE', 'x'), SecretNotFoundError)
    for (const [body, status] of [[{ name: 'TAKEN', value: 'y' }, 409], [{ name: 'a-b', value: 'x' }, 400], [{ name: 'EMPTY', value: '' }, 400], [{ name: 'M', value: 'x', metadata: { a: 'b'.repeat(1025) } }, 400]]) {
      assert.equal((await call('POST', '/secrets', body)).status, status, JSON.stringify(body))
    }
    await Secret.destroy('TAKEN')
  },
  'secret: sent to its host, and not seen by the sandbox': async () => {
    const opts = { apiKey: process.env.OPERATOR_KEY }
    const rules = { 'api.example.com': [{ transform: { headers: { 'X-Key': `Bearer ${Secret.fill('SENT')}` } } }] }
    await Secret.create('SENT', 'hush-4', opts)
    const box = await Sandbox.create({ ...opts, network: { allowOut: ['api.example.com'], denyOut: ['0.0.0.0/0'], rules, egressProxy: { address: process.env.SOCKS } } })
    const ask = async () => (await box.commands.run('curl -sS --max-time 20 https://api.example.com/ 2>&1')).stdout
    try {
      assert.equal(await ask(), 'Bearer hush-4')
      await Secret.update('SENT', 'hush-5', opts)
      assert.equal(await ask(), 'Bearer hush-5')
      assert.ok(!(await box.commands.run('env; cat /proc/self/environ')).stdout.includes('hush'))
    } finally {
      await box.kill()
      await Secret.destroy('SENT', opts)
    }
  },
}
