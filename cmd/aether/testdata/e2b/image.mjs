// A template of an image that is in a registry.
import assert from 'node:assert/strict'
import { Template } from 'e2b'
import { make } from './help.mjs'

export default {
  'image: a template of a reference': async () => {
    const template = Template().fromImage(process.env.IMAGE).runCmd('id -un > /tmp/who').setEnvs({ OWN: '1' })
    template.logsRefreshFrequency = 50
    await Template.build(template, 'imaged')
    const box = await make('imaged')
    assert.equal((await box.commands.run('cat /tmp/who /only-there; echo $OWN $FROM; pwd')).stdout, 'user\nfrom the registry\n1 image\n/home/user\n')
    await box.files.write('mine', 'x')
    assert.equal((await box.files.getInfo('mine')).owner, 'user')
    await box.kill()
  },
}
