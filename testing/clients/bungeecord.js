'use strict'
// What a Bukkit plugin does on the channel "BungeeCord": it writes with a java.io.DataOutputStream and reads with a DataInputStream, byte by
// byte as their documentation says (testing/vectors/bungeecord). Values are [type, value]: UTF a text, Short and Int a number, Bytes hex.

/** What these calls of a DataOutputStream write. */
function write (calls) {
  const bytes = []
  const writers = {
    Short: value => bytes.push(value >> 8 & 0xff, value & 0xff),
    Int: value => bytes.push(value >>> 24 & 0xff, value >> 16 & 0xff, value >> 8 & 0xff, value & 0xff),
    Bytes: value => bytes.push(...Buffer.from(value.replace(/ /g, ''), 'hex')),
    UTF: value => {
      const text = modified(value)
      if (text.length > 65535) throw new Error(`UTFDataFormatException: encoded string too long: ${text.length} bytes`)
      writers.Short(text.length)
      bytes.push(...text)
    }
  }
  for (const [type, value] of calls) writers[type](value)
  return Buffer.from(bytes)
}

/** Java's modified UTF-8: each unit of UTF-16 on its own, and NUL in two bytes. */
function modified (text) {
  const bytes = []
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit >= 0x01 && unit <= 0x7f) bytes.push(unit)
    else if (unit <= 0x7ff) bytes.push(0xc0 | unit >> 6, 0x80 | unit & 0x3f)
    else bytes.push(0xe0 | unit >> 12, 0x80 | unit >> 6 & 0x3f, 0x80 | unit & 0x3f)
  }
  return bytes
}

// What a plugin reads of each answer behind its name. Anything else is another plugin's, forwarded: a length and so many bytes.
const ANSWERS = {
  IP: ['UTF', 'Int'],
  IPOther: ['UTF', 'UTF', 'Int'],
  PlayerCount: ['UTF', 'Int'],
  PlayerList: ['UTF', 'UTF'],
  GetServers: ['UTF'],
  GetServer: ['UTF'],
  GetPlayerServer: ['UTF', 'UTF'],
  UUID: ['UTF'],
  UUIDOther: ['UTF', 'UTF'],
  ServerIP: ['UTF', 'UTF', 'UnsignedShort']
}

/** The values in a message from the proxy, its name first; throws where a DataInputStream does, and if something is left. */
function read (data) {
  let at = 0
  const take = count => {
    if (at + count > data.length) throw new Error('EOFException')
    at += count
    return data.subarray(at - count, at)
  }
  const readers = {
    UnsignedShort: () => take(2).readUInt16BE(),
    Short: () => take(2).readInt16BE(),
    Int: () => take(4).readInt32BE(),
    UTF: () => text(take(readers.UnsignedShort())),
    Forwarded: () => {
      const length = readers.Short()
      if (length < 0) throw new Error(`NegativeArraySizeException: ${length}`)
      return take(length).toString('hex')
    }
  }
  const name = readers.UTF()
  const values = [name, ...(ANSWERS[name] || ['Forwarded']).map(type => readers[type]())]
  if (at !== data.length) throw new Error(`${data.length - at} bytes more than ${JSON.stringify(values)}`)
  return values
}

/** The text that bytes of modified UTF-8 are. */
function text (bytes) {
  const units = []
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at++]
    const more = first < 0x80 ? 0 : first >> 5 === 0b110 ? 1 : first >> 4 === 0b1110 ? 2 : -1
    if (more < 0) throw new Error('UTFDataFormatException: malformed input')
    let unit = more === 0 ? first : first & 0x3f >> more
    for (let left = more; left > 0; left--) {
      if (at >= bytes.length || bytes[at] >> 6 !== 0b10) throw new Error('UTFDataFormatException: malformed input')
      unit = unit << 6 | bytes[at++] & 0x3f
    }
    units.push(unit)
  }
  return units.map(unit => String.fromCharCode(unit)).join('')
}

module.exports = { CHANNEL: 'BungeeCord', write, read }
