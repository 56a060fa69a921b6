'use strict'
// JSON lines: commands come in on stdin, events go out on stdout. Shared by player.js and backend.js.
//
// A script ends when its stdin does (the test that started it is gone) and, whatever happens, after `lifetime` seconds.

const readline = require('readline')

const MAX_LIFETIME = 1800

/** The options: the one argument, a JSON object. */
function options () {
  try {
    return JSON.parse(process.argv[2] || '{}')
  } catch (error) {
    process.stderr.write(`the one argument must be a JSON object: ${error.message}\n`)
    process.exit(2)
  }
}

/** Writes one event. */
function emit (event, fields) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n')
}

/** Calls `commands[line.do](line)` for each line; answers what cannot be done with an `error` event. */
function serve (commands, lifetime) {
  const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
  lines.on('line', text => {
    let line
    try {
      line = JSON.parse(text)
      const command = commands[line.do]
      if (!command) throw new Error(`no such command: ${line.do}`)
      command(line)
    } catch (error) {
      emit('error', { message: `command: ${error.message}` })
    }
  })
  lines.on('close', () => process.exit(0))
  setTimeout(() => {
    emit('error', { message: 'lifetime over' })
    process.exit(3)
  }, Math.min(lifetime || 600, MAX_LIFETIME) * 1000).unref()
  process.on('uncaughtException', error => emit('error', { message: `uncaught: ${error.message}` }))
}

/** The text of a chat component (or of a plain string), colours and clicks left out. */
function plain (json) {
  let value = json
  try { value = JSON.parse(json) } catch { /* a plain string is shown as it is */ }
  const text = part => {
    if (part === null || part === undefined) return ''
    if (typeof part !== 'object') return String(part)
    if (Array.isArray(part)) return part.map(text).join('')
    return text(part.text) + text(part.translate) + (part.extra || []).map(text).join('')
  }
  return text(value)
}

module.exports = { options, emit, serve, plain, hex: text => Buffer.from(text || '', 'hex') }
