// Volumes, which a host has room for only where root may make file systems.
import assert from 'node:assert/strict'
import { Volume } from 'e2b'
import { make } from './help.mjs'

export default {
  'volume: made, listed, shared by sandboxes and removed': async () => {
    const name = `volume-${Date.now()}`
    const volume = await Volume.create(name)
    assert.deepEqual([volume.volumeId, volume.name], [name, name])
    assert.ok((await Volume.list()).some((v) => v.volumeId === name))
    assert.equal((await Volume.getInfo(name)).name, name)
    const boxes = [await make({ volumeMounts: { '/mnt/data': volume } }), await make({ volumeMounts: { '/mnt/data': name } })]
    await boxes[0].files.write('/mnt/data/f', 'shared', { user: 'root' })
    assert.equal(await boxes[1].files.read('/mnt/data/f'), 'shared')
    assert.deepEqual((await boxes[1].getInfo()).volumeMounts, [{ name, path: '/mnt/data' }])
    await Promise.all(boxes.map((b) => b.kill()))
    assert.equal(await Volume.destroy(name), true)
    assert.equal(await Volume.destroy(name), false)
  },
}
