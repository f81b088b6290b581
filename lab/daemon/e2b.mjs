// Has the official client live a sandbox's life for each line of its input.
import readline from 'node:readline'
import { Sandbox } from 'e2b'

for await (const _ of readline.createInterface({ input: process.stdin })) {
  const times = [performance.now()]
  let said
  try {
    const box = await Sandbox.create()
    times.push(performance.now())
    await box.commands.run('true')
    times.push(performance.now())
    await box.kill()
    times.push(performance.now())
    said = { Create: times[1] - times[0], Command: times[2] - times[1], End: times[3] - times[2] }
  } catch (e) {
    said = { Error: `${e}` }
  }
  console.log(JSON.stringify(said))
}
