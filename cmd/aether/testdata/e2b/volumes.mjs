// Volumes, which a host has room for only where root may make file systems.
import assert from 'node:assert/strict'
import { call, make } from './help.mjs'

export default {
  'create: with a volume': async () => {
    const name = `volume-${Date.now()}`
    assert.equal((await call('POST', '/v1/volumes', { name, bytes: 64 << 20 })).status, 201)
    const boxes = [await make({ volumeMounts: { '/mnt/data': name } }), await make({ volumeMounts: { '/mnt/data': name } })]
    await boxes[0].files.write('/mnt/data/f', 'shared', { user: 'root' })
    assert.equal(await boxes[1].files.read('/mnt/data/f'), 'shared')
    assert.deepEqual((await boxes[1].getInfo()).volumeMounts, [{ name, path: '/mnt/data' }])
    await Promise.all(boxes.map((b) => b.kill()))
    assert.equal((await call('DELETE', `/v1/volumes/${name}`)).status, 204)
  },
}
