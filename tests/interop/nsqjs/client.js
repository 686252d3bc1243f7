// The scenarios of tests/interop/README.md, played with the published nsqjs.
'use strict'

const crypto = require('node:crypto')
const fs = require('node:fs')
const {setTimeout: sleep} = require('node:timers/promises')

const nsq = require('nsqjs')

const asked = JSON.parse(process.argv[2])
const [host, port] = asked.address.split(':')

function options(scenario) {
  const chosen = {
    heartbeatInterval: 1,
    maxInFlight: 10,
    snappy: asked.mode === 'tls-snappy',
    deflate: asked.mode === 'tls-deflate',
  }
  if (scenario === 'touch' || scenario === 'timeout') chosen.messageTimeout = asked.msg_timeout_ms
  if (asked.mode !== 'plain') Object.assign(chosen, {tls: true, ca: fs.readFileSync(asked.ca_file)})
  return chosen
}

function severalBodies() {
  const noise = Buffer.alloc(asked.large_bytes)
  let state = 1
  for (let i = 0; i < noise.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    noise[i] = state >>> 24
  }
  const repeated = Buffer.from('nsq '.repeat(asked.large_bytes / 4))
  return [...asked.several.map((text) => Buffer.from(text)), repeated, noise]
}

const deliveriesWanted = (scenario) =>
  ({consume: 1 + severalBodies().length, requeue: 2, timeout: 2})[scenario] || 1

function connect(client) {
  return new Promise((resolve, reject) => {
    client.once('ready', resolve)
    client.on('error', reject)
    client.connect()
  })
}

function acknowledged(send) {
  return new Promise((resolve, reject) => send((error) => (error ? reject(error) : resolve())))
}

async function publish(writer, scenario, topic, seen) {
  const single = Buffer.from(asked.single)
  if (scenario === 'defer') {
    return acknowledged((done) => writer.deferPublish(topic, [single], asked.delay_ms, done))
  }
  await acknowledged((done) => writer.publish(topic, single, done))
  if (scenario !== 'publish' && scenario !== 'consume') return
  seen.acknowledged = 1
  await acknowledged((done) => writer.publish(topic, severalBodies(), done))
  seen.acknowledged = 2
}

async function holdTouching(message) {
  const until = performance.now() + asked.hold_ms
  while (performance.now() < until) {
    message.touch()
    await sleep(asked.msg_timeout_ms / 4)
  }
}

async function answer(message, scenario, seen, nowMs) {
  const count = seen.deliveries.push({
    attempts: message.attempts,
    at_ms: nowMs(),
    bytes: message.body.length,
    sha256: crypto.createHash('sha256').update(message.body).digest('hex'),
  })
  if (count === 1 && scenario === 'timeout') return false
  if (count === 1 && scenario === 'requeue') {
    seen.requeued_at_ms = nowMs()
    message.requeue(asked.delay_ms, false)
    return false
  }
  if (scenario === 'touch') await holdTouching(message)
  message.finish()
  return count === deliveriesWanted(scenario)
}

async function consume(writer, scenario, topic, seen) {
  const reader = new nsq.Reader(topic, asked.channel, {...options(scenario), nsqdTCPAddresses: [asked.address]})
  let started = performance.now()
  const nowMs = () => performance.now() - started
  const finished = new Promise((resolve, reject) => {
    reader.on('error', reject)
    reader.on('message', (message) => {
      answer(message, scenario, seen, nowMs).then((last) => last && resolve(true), reject)
    })
  })
  await connect(reader)
  started = performance.now()
  await publish(writer, scenario, topic, seen)
  const late = new AbortController()
  const giveUp = sleep(asked.limit_ms, false, {signal: late.signal}).catch(() => false)
  if (!(await Promise.race([finished, giveUp]))) throw new Error('too few deliveries')
  late.abort()
  await sleep(200) // nsqjs closes its socket without waiting for what the codec still holds
  reader.close()
}

async function play(scenario) {
  const seen = {acknowledged: 0, deliveries: [], requeued_at_ms: 0, error: ''}
  const topic = `${asked.topic}.${scenario}`
  try {
    const writer = new nsq.Writer(host, Number(port), options(scenario))
    await connect(writer)
    await (scenario === 'publish' ? publish : consume)(writer, scenario, topic, seen)
    writer.close()
  } catch (error) {
    seen.error = String(error)
  }
  return [scenario, seen]
}

Promise.all(asked.scenarios.map(play)).then((played) => {
  const {version} = require('nsqjs/package.json')
  const line = JSON.stringify({client: 'nsqjs', version, scenarios: Object.fromEntries(played)})
  process.stdout.write(`${line}\n`, () => process.exit(0))
})
