// What sandboxes may reach.
import assert from 'node:assert/strict'
import { call, make } from './help.mjs'

// The host's own address is not public: whoever may reach everything public may not reach it.
const reaches = async (box, host) => (await box.commands.run(`timeout 5 bash -c 'exec 3<>/dev/tcp/${host}' 2>/dev/null && echo yes || echo no`)).stdout.trim()

export default {
  'network: none': async () => {
    const box = await make({ allowInternetAccess: false })
    const info = await box.getInfo()
    assert.deepEqual([info.allowInternetAccess, info.network.denyOut], [false, ['0.0.0.0/0']])
    assert.equal(await reaches(box, '192.0.2.1/80'), 'no')
    await box.kill()
  },
  'network: the host is not public': async () => {
    const box = await make()
    assert.equal(await reaches(box, process.env.OUTSIDE), 'no')
    await box.kill()
  },
  'network: lists are told again': async () => {
    const box = await make({ network: { allowOut: ['example.com', '*.example.org'], denyOut: ['0.0.0.0/0'] } })
    const { network, allowInternetAccess } = await box.getInfo()
    assert.deepEqual([network.allowOut, network.denyOut, allowInternetAccess], [['example.com', '*.example.org'], ['0.0.0.0/0'], false])
    await box.kill()
  },
  'network: changed, which clears what is left out': async () => {
    const box = await make({ network: { allowOut: ['example.com'], denyOut: ['0.0.0.0/0'] } })
    await box.updateNetwork({ denyOut: ['8.8.8.8'] })
    let { network, allowInternetAccess } = await box.getInfo()
    assert.deepEqual([network.allowOut, network.denyOut, allowInternetAccess], [undefined, ['8.8.8.8'], true])
    await box.updateNetwork({ allowInternetAccess: false })
    assert.equal((await box.getInfo()).allowInternetAccess, false)
    await box.kill()
  },
  'network: rules with headers are told again': async () => {
    const rules = { 'api.example.com': [{ transform: { headers: { 'X-Team': 'blue' } } }] }
    const box = await make({ network: { allowOut: ['api.example.com'], denyOut: ['0.0.0.0/0'], rules } })
    assert.deepEqual((await box.getInfo()).network.rules, rules)
    await box.kill()
  },
  'network: what cannot be held is refused': async () => {
    for (const [network, status] of [
      [{ allowOut: ['8.8.8.8'], denyOut: ['8.8.0.0/16'] }, 501], [{ allowOut: ['10.0.0.0/8'] }, 403], [{ allowOut: ['a b'] }, 400],
      [{ egressProxy: { address: 'proxy.example.com:1080', username: 'u', password: 'p' } }, 501], [{ httpsPorts: [443] }, 501],
    ]) {
      const r = await call('POST', '/v2/sandboxes', { templateID: 'base', network })
      assert.deepEqual([r.status, r.body.code], [status, status], JSON.stringify([network, r.body]))
    }
  },
}
