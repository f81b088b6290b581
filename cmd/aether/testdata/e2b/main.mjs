// Drives a daemon with the official clients. Each behaviour prints one line of JSON.
import { endAll } from './help.mjs'

const only = process.env.ONLY && new RegExp(process.env.ONLY)
const seconds = Number(process.env.SECONDS ?? 240)
const files = process.env.FILES.split(' ')
for (const file of files) {
  for (const [name, run] of Object.entries((await import(`./${file}.mjs`)).default)) {
    if (only && !only.test(name)) continue
    const began = Date.now()
    let error
    let timer
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`it takes more than ${seconds} seconds`)), seconds * 1000) })
    try {
      await Promise.race([run(), late])
    } catch (e) {
      error = `${e}\n${e.stack}\n${e.cause ?? ''}` // a builder replaces the stack, without the message
    }
    clearTimeout(timer)
    console.log(JSON.stringify({ name, ms: Date.now() - began, error }))
  }
}
await endAll()
process.exit(0)
