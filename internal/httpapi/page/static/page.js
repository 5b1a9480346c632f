// The module of the page. It follows the events of the session that the page shows, and sends messages and decisions with
// the routes of the API. HTML comes from the server only: see parse.
const body = document.body, page = body.dataset.page, session = body.dataset.session
const $ = (selector, root = document) => root.querySelector(selector)
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const byID = id => document.getElementById(id)
const escaped = encodeURIComponent

// --- HTML of the server

const trusted = globalThis.trustedTypes?.createPolicy('everturn', { createHTML: html => html })
const parse = html => new DOMParser().parseFromString(trusted ? trusted.createHTML(html) : html, 'text/html')

class SignedOut extends Error {}

async function load(url) {
  const response = await fetch(url, { headers: { Accept: 'text/html' } })
  if (response.status === 401) throw new SignedOut()
  if (!response.ok) throw new Error(`the server answers ${response.status}`)
  return parse(await response.text())
}

// morph makes an element what the server says, and keeps what the user has changed: the focus, the selection, what is
// open. The children of an element that has children with IDs are matched by these.
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh)
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = fresh.data)
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name)
  for (const { name, value } of [...fresh.attributes])
    if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value)
  const named = new Map([...old.children].filter(e => e.id).map(e => [e.id, e]))
  let at = old.firstChild
  for (const next of [...fresh.childNodes]) {
    const same = next.id ? named.get(next.id) : at && !at.id && at.nodeName === next.nodeName ? at : null
    if (same === at && at) at = at.nextSibling
    else if (same) old.insertBefore(same, at)
    if (same) { named.delete(next.id); morph(same, next) } else old.insertBefore(next, at)
  }
  while (at) {
    const gone = at
    at = at.nextSibling
    if (gone.id !== 'live') gone.remove()
  }
}

// update morphs the elements with these IDs to those of a document of the server.
function update(fresh, ...ids) {
  for (const id of ids) {
    const old = byID(id), next = fresh.getElementById(id)
    if (old && next) morph(old, next)
  }
  localize()
  count()
}

// localize shows times in the time zone of the user.
function localize() {
  for (const t of all('time[datetime]')) {
    const text = new Date(t.dateTime).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
    if (t.textContent !== text) t.textContent = text
  }
}

const plainTitle = document.title
function count() {
  const open = $('[data-open]')?.dataset.open
  document.title = open ? `(${open}) ${plainTitle}` : plainTitle
}

// --- Requests to the API

async function send(path, content, headers = {}) {
  let response
  try {
    response = await fetch('/v1' + path, {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(content),
    })
  } catch {
    throw new Error('The server does not answer. Nothing is lost: try again.')
  }
  const answer = await response.json().catch(() => ({}))
  if (response.ok) return answer
  if (response.status === 401) location.reload()
  throw Object.assign(new Error(answer.error?.message ?? `the server answers ${response.status}`), answer.error)
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('')
}

function fail(root, error) {
  const place = $('[data-error]', root)
  place.textContent = error?.message ?? ''
  place.hidden = !error
}

const sessionPath = (id, rest = '') => `/sessions/${escaped(id)}${rest}`

// --- The theme, and what a browser keeps

const keep = (name, value) => { document.cookie = `${name}=${value};path=/;max-age=31536000;samesite=strict` }
for (const b of all('[data-theme-toggle]')) b.onclick = () => {
  const root = document.documentElement
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  keep('theme', root.dataset.theme = dark ? 'light' : 'dark')
}
const stored = (name, value) => {
  try {
    if (value === undefined) return localStorage.getItem(name)
    localStorage.setItem(name, value)
  } catch { /* the browser keeps nothing */ }
}
const letters = $('[data-letters]')
if (letters) {
  letters.checked = stored('letters') !== 'off'
  letters.onchange = () => stored('letters', letters.checked ? 'on' : 'off')
}

// --- Cards

const armed = 700 // milliseconds in which a new card ignores clicks and keys

// guard prepares the cards that are new: their buttons wait, and those that allow until the arguments were seen.
function guard() {
  for (const card of all('.req[data-request]:not([data-guarded])')) {
    card.dataset.guarded = ''
    const buttons = all('button', card)
    for (const b of buttons) b.classList.add('arming')
    setTimeout(() => { for (const b of buttons) b.classList.remove('arming') }, armed)
    if (!body.hasAttribute('data-decides')) {
      for (const b of buttons) b.setAttribute('aria-disabled', 'true')
      const hint = $('[data-hint]', card)
      if (hint) hint.textContent = 'Your token lacks the right decide.'
      continue
    }
    const read = $('[data-read]', card)
    if (!read) continue
    const end = read.appendChild(document.createElement('div'))
    end.className = 'end'
    const seen = new IntersectionObserver(entries => {
      if (document.hidden || !entries.some(e => e.isIntersecting)) return
      seen.disconnect()
      for (const b of all('[data-allow]', card)) b.removeAttribute('aria-disabled')
      $('[data-hint]', card).textContent = 'You have seen all of it. A decision cannot be undone.'
    }, { root: read })
    const watch = () => { if (card.isConnected) { seen.disconnect(); seen.observe(end) } }
    document.addEventListener('visibilitychange', watch)
    watch()
  }
}

async function decide(card, decision) {
  if (card.hasAttribute('data-decided')) return
  const { session, turn, request } = card.dataset
  card.dataset.decided = ''
  for (const b of all('button', card)) b.disabled = true
  try {
    fail(card)
    await send(sessionPath(session, `/turns/${escaped(turn)}/requests/${escaped(request)}`), decision)
    settle(card, verdict(decision))
  } catch (error) {
    if (error.code === 'already_decided') return settle(card, `Decided elsewhere: ${error.decision.status} by ${error.decision.by || 'the server'}`)
    if (['not_pending', 'not_running', 'expired'].includes(error.code)) return settle(card, 'It is no longer open')
    delete card.dataset.decided
    for (const b of all('button', card)) b.disabled = false
    fail(card, error)
  }
}

function verdict(d) {
  if (d.allow !== undefined) return d.allow ? 'Allowed by you' : 'Denied by you'
  return d.text ? 'Answered by you' : { accept: 'Sent', decline: 'Declined by you' }[d.response.action] ?? 'Cancelled by you'
}

// settle shows how a request ended. The card stays where it is.
function settle(card, text) {
  card.dataset.decided = text
  card.dataset.s = 'off'
  for (const b of all('button', card)) b.disabled = true
  const head = $('b, h2', card)
  head.textContent = `${head.textContent.replace(/\?$/, '')} · ${text}`
  const row = byID('row-' + (card.id || card.parentElement.id))
  row?.classList.add('done')
}

// gone settles the cards that the server no longer has.
function gone(fresh) {
  for (const card of all('.req[data-request]:not([data-decided])')) {
    const id = card.id || card.parentElement.id
    if (!fresh.getElementById(id)) settle(card, 'Decided elsewhere')
  }
}

function ready(button) {
  return button && !button.disabled && !button.classList.contains('arming') && button.getAttribute('aria-disabled') !== 'true' && !offline.shown
}

let reasonFor = null
document.addEventListener('click', event => {
  const b = event.target.closest('button')
  if (!b) return
  const card = b.closest('.req[data-request]')
  if (card && b.type !== 'submit' || card && b.matches('[data-allow],[data-deny],[data-why]')) {
    event.preventDefault()
    if (!ready(b)) return
    if (b.dataset.allow !== undefined)
      decide(card, { allow: true, arguments_hash: b.dataset.hash, ...(b.dataset.allow && { grant: b.dataset.allow }) })
    else if (b.hasAttribute('data-deny')) decide(card, { allow: false })
    else if (b.hasAttribute('data-why')) { reasonFor = card; byID('why').showPopover() }
  } else if (b.hasAttribute('data-stop')) stop(b)
  else if (b.dataset.fork) fork(b)
  else if (b.hasAttribute('data-reconnect')) connect()
  else if (b.id === 'waiting') location.reload()
})

document.addEventListener('submit', event => {
  const form = event.target
  if (form.matches('[method=post],[role=search]')) return
  event.preventDefault()
  const card = form.closest('.req[data-request]')
  if (card && !ready(event.submitter ?? $('button', form))) return
  if (form.id === 'why') {
    form.hidePopover()
    if (reasonFor) decide(reasonFor, { allow: false, reason: form.reason.value.trim() })
    form.reset()
  } else if (form.hasAttribute('data-answer')) decide(card, { text: form.text.value })
  else if (form.hasAttribute('data-respond')) respond(card, form, event.submitter?.value ?? 'accept')
  else if (form.hasAttribute('data-compose')) compose(form)
  else if (form.hasAttribute('data-new')) begin(form)
})

// respond answers an elicitation with the values of its form.
function respond(card, form, action) {
  const content = {}
  for (const field of action === 'accept' ? all('[data-json]', form) : []) {
    const { name, value, checked } = field, type = field.dataset.json
    if (type === 'boolean') content[name] = checked
    else if (type === 'array') { content[name] ??= []; if (checked) content[name].push(value) }
    else if (value !== '') content[name] = type === 'string' ? value : Number(value)
  }
  decide(card, { response: { action, ...(action === 'accept' && { content }) } })
}

// --- The composer and the commands of a session

const box = $('[data-compose] textarea'), draft = 'draft:' + session
let message = null // that was sent and not acknowledged: it is sent again under the same key
if (box) {
  const kept = JSON.parse(stored(draft) ?? 'null')
  if (kept) { box.value = kept.text; message = kept.key ? kept : null }
  box.oninput = () => { message = null; stored(draft, JSON.stringify({ text: box.value })) }
  box.onkeydown = e => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && !matchMedia('(pointer:coarse)').matches) {
      e.preventDefault()
      box.form.requestSubmit()
    }
  }
}

async function compose(form) {
  const text = box.value.trim(), button = $('.primary', form)
  if (!text || button.disabled) return
  message ??= { key: newKey(), text: box.value }
  stored(draft, JSON.stringify(message))
  button.disabled = true
  try {
    fail(form)
    await send(sessionPath(session, '/messages'), { text: message.text, ...($('select', form).value && { queue: true }) },
      { 'Idempotency-Key': message.key })
    message = null
    box.value = ''
    stored(draft, 'null')
    const state = byID('state')
    if (state.dataset.s !== 'run' && state.dataset.s !== 'wait') {
      $('b', state).textContent = 'sent'
      $('span', state).textContent = 'a worker begins the turn'
    }
    if (!source || source.readyState === EventSource.CLOSED) connect()
  } catch (error) {
    fail(form, error)
  }
  button.disabled = false
}

async function begin(form) {
  const data = Object.fromEntries(new FormData(form)), button = $('.primary', form)
  const id = data.session.trim() || 's-' + newKey().slice(0, 12)
  form.dataset.key ??= newKey()
  button.disabled = true
  try {
    await send(sessionPath(id, '/messages'), { text: data.text, ...(form.agent.selectedIndex > 0 && { agent: data.agent }), ...(data.plan && { plan: data.plan }) },
      { 'Idempotency-Key': form.dataset.key })
    location.assign('/s/' + escaped(id))
  } catch (error) {
    fail(form, error)
    button.disabled = false
  }
}

async function stop(button) {
  button.disabled = true
  try {
    await send(sessionPath(session, '/stop'), {})
  } catch (error) {
    if (error.code !== 'not_running') $('span', byID('state')).textContent = error.message
  }
  button.disabled = false
}

async function fork(button) {
  button.disabled = true
  try {
    location.assign('/s/' + escaped((await send(sessionPath(session, '/fork'), { at: Number(button.dataset.fork) })).id))
  } catch (error) {
    button.textContent = error.message
  }
}

// --- The stream of a session

let source = null, after = body.dataset.after, lastTurn = body.dataset.last, delay = 0, timer = 0
const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 120
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight })

// following scrolls to the end after a change if the reader was there.
function following(change) {
  const was = atEnd()
  change()
  if (was) toEnd()
}

const offline = {
  shown: false, timer: 0,
  later() { this.timer ||= setTimeout(() => this.show(true), 2000) },
  show(is) {
    clearTimeout(this.timer)
    this.timer = 0
    this.shown = is
    const banner = byID('offline')
    if (banner) banner.hidden = !is
    body.toggleAttribute('data-offline', is)
  },
  says(text) { const place = $('[data-offline]'); if (place) place.textContent = text },
}

function connect() {
  if (page !== 'session') return refresh()
  clearTimeout(timer)
  source?.close()
  const query = after ? '?after=' + escaped(after) : ''
  source = new EventSource(`/v1/sessions/${escaped(session)}/events${query}`)
  source.onopen = () => {
    if (offline.shown || delay) refresh()
    delay = 0
    offline.show(false)
  }
  source.onmessage = e => {
    after = e.lastEventId
    take(JSON.parse(e.data))
  }
  source.onerror = () => {
    source.close()
    offline.later()
    delay = Math.min(delay * 2 || 500, 10000)
    const index = after.split('/').pop()
    offline.says(`Connecting again in ${Math.ceil(delay / 1000)} s${after ? `, from event ${index}` : ''}.`)
    timer = setTimeout(() => load(location.pathname + '?turn=' + escaped(lastTurn)).then(connect, lost), delay)
  }
}

// lost handles a server that does not answer, or that does not know this browser any more.
function lost(error) {
  if (error instanceof SignedOut) return location.reload()
  source?.onerror ? source.onerror() : offline.later()
}

// take shows an event.
function take(event) {
  lastTurn = event.turn
  changed.add(event.turn)
  switch (event.kind) {
    case 'text_delta': return append(event, '[data-text]')
    case 'reasoning_delta': return append(event, '[data-reasoning]')
    case 'tool_progress': return
    case 'attempt_restarted': drop(event)
  }
  refresh()
}

const isOf = (live, event) => live?.dataset.turn === event.turn && live.dataset.step === String(event.step)

function drop(event) {
  flush()
  texts = texts.filter(([e]) => e.turn !== event.turn || e.step !== event.step)
  const live = byID('live')
  if (isOf(live, event)) live.remove()
}

// append adds a text to the step that runs, and begins the step if it is the first one. Texts wait for the next frame, so
// that many at once cost one layout.
let texts = []
function append(event, place) {
  if (texts.push([event, place]) === 1) requestAnimationFrame(flush)
}

function flush() {
  const list = texts
  texts = []
  if (list.length) following(() => { texts = list.filter(([event, place]) => !appendNow(event, place)) })
}

// appendNow returns false if the page does not have the turn yet: it comes with the next refresh, and then the text.
function appendNow(event, place) {
  if (byID(`end-${event.turn}-${event.step}`)) return true // its message is shown already
  let live = byID('live')
  if (live && !isOf(live, event)) { live.remove(); live = null }
  live ??= beginLive(event)
  if (!live) return false
  $(place, live)?.append(event.text)
  if (place === '[data-reasoning]') $('details', live).hidden = false
  return true
}

function element(name, className, ...children) {
  const e = document.createElement(name)
  if (className) e.className = className
  e.append(...children)
  return e
}

function beginLive(event) {
  const flow = byID('turn-' + event.turn)?.querySelector('.flow')
  if (!flow) return null
  const reasoning = element('div', 'md muted flowing'), text = element('p', 'flowing')
  reasoning.dataset.reasoning = text.dataset.text = ''
  const details = element('details', 'call', element('summary', '', element('span', 'muted grow', 'Reasoning'), element('i', 'i i-chev')),
    element('div', 'body', reasoning))
  details.hidden = true
  const article = element('article', 'msg', element('header', '', element('b', '', 'Everturn')), element('div', 'md', text))
  article.setAttribute('aria-busy', 'true')
  const live = element('li', '', details, element('span', 'node', element('i', 'i i-brand')), article)
  live.id = 'live'
  Object.assign(live.dataset, { turn: event.turn, step: event.step, s: 'run' })
  return flow.appendChild(live)
}

// --- Refreshing

let refreshing = null, again = false
const changed = new Set() // the turns that have changed

// refresh gets what has changed from the server: at once, and once more if something has changed meanwhile.
function refresh() {
  if (refreshing) { again = true; return refreshing }
  refreshing = refreshOnce().catch(error => page === 'session' ? error instanceof SignedOut && lost(error) : lost(error))
    .finally(() => {
      refreshing = null
      if (again) { again = false; setTimeout(refresh, 100) }
    })
  return refreshing
}

async function refreshOnce() {
  if (page === 'session') {
    const turns = [...changed]
    changed.clear()
    for (const turn of turns.length ? turns : [lastTurn])
      refreshSession(await load(`/s/${escaped(session)}?turn=${escaped(turn)}`))
    return
  }
  const fresh = await load(location.href)
  offline.show(false)
  if (page === 'sessions') return refreshRows(fresh)
  if (page !== 'inbox') return
  gone(fresh)
  for (const [list, items] of [['inbox-rows', 'li'], ['panes', 'article']]) {
    if (!byID(list)) { if (fresh.getElementById(list)) update(fresh, 'inbox'); continue }
    for (const e of all(`#${list} > ${items}`, fresh)) if (!byID(e.id)) byID(list).append(e) // new ones come last
  }
  update(fresh, 'nav', 'recent')
  guard()
}

// refreshRows updates the rows in place. While the user is in the list, no row moves, and new ones wait.
function refreshRows(fresh) {
  update(fresh, 'nav', 'recent')
  const used = $('#list:hover, #list:focus-within'), rows = all('#list .rows > li[id]', fresh)
  if (!used) {
    byID('waiting').hidden = true
    return update(fresh, 'list')
  }
  const added = rows.filter(row => !byID(row.id)).length
  update(fresh, ...rows.map(row => row.id))
  const waiting = byID('waiting')
  waiting.hidden = !added
  waiting.textContent = `${added} new`
}

function refreshSession(fresh) {
  flush()
  following(() => {
    const log = byID('log')
    byID('none')?.remove()
    for (const section of all('#log > section.turn', fresh)) {
      $('#live', section)?.remove() // this page has its own
      const old = byID(section.id)
      if (old) morph(old, section)
      else if (section.id !== 'shared') log.append(section)
    }
    const live = byID('live')
    if (live && byID(`end-${live.dataset.turn}-${live.dataset.step}`)) live.remove()
    gone(fresh)
    const cards = byID('requests')
    for (const card of all('#requests > .req', fresh)) if (!byID(card.id)) cards.append(card)
    const open = all('.req:not([data-decided])', cards)
    if (!open.length) for (const card of all('.req[data-decided]', cards)) setTimeout(() => card.remove(), 4000)
    update(fresh, 'bar', 'state', 'details', 'nav', 'recent')
    guard()
  })
  flush()
}

// --- Keys

const typing = e => e.target.closest?.('input:not([type=checkbox],[type=radio]),textarea,select,[contenteditable]')
let going = false

document.addEventListener('keydown', e => {
  if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && e.target.form) return e.target.form.requestSubmit()
  if (e.key === '.' && e.ctrlKey) { e.preventDefault(); return $('[data-stop]')?.click() }
  if (e.repeat || e.ctrlKey || e.metaKey || e.altKey || typing(e) || letters && !letters.checked) return
  const key = e.key
  if (going) {
    going = false
    if (key === 's') location.assign('/')
    if (key === 'i') location.assign('/inbox')
    return
  }
  const done = () => e.preventDefault()
  const card = focused()
  if (card && /^[ynahctr]$/.test(key)) {
    const b = $(`[aria-keyshortcuts="${key}"]`, card)
    if (b) { done(); return ready(b) && b.click() }
  }
  switch (key) {
    case 'g': going = true; setTimeout(() => { going = false }, 1500); break
    case '/': { const s = $('[type=search]'); if (s) { done(); s.focus() } break }
    case 'n': if (byID('new')) { done(); byID('new').showPopover() } break
    case 'm': if (box) { done(); box.focus() } break
    case '?': done(); byID('keys')?.togglePopover(); break
    case 'o': { const calls = all('details.call'), open = !calls.some(d => d.open); for (const d of calls) d.open = open; break }
    case 'j': case 'k': move(key === 'j' ? 1 : -1); done()
  }
})

// focused returns the request on which keys act: the one with the focus or, in the inbox and the dock, the one that is open.
function focused() {
  const inside = document.activeElement?.closest('.req[data-request]')
  if (inside) return inside
  if (page === 'inbox') return shownPane()?.querySelector('.req')
  const open = all('#requests > .req[open]')
  return document.activeElement === body && open.length === 1 ? open[0] : null
}

function shownPane() {
  const pane = location.hash ? byID(decodeURIComponent(location.hash.slice(1))) : null
  return pane?.matches('.pane') ? pane : matchMedia('(min-width:43.75rem)').matches ? $('.pane') : null
}

function move(by) {
  const rows = all(page === 'session' ? '.flow > li :is(summary, a, button)' : '#list a, #inbox-rows a')
  const visible = rows.filter(r => r.offsetParent)
  const at = visible.indexOf(document.activeElement)
  const next = visible[at < 0 ? (by > 0 ? 0 : visible.length - 1) : at + by]
  next?.focus()
  if (page === 'inbox' && next) location.hash = next.hash
}

function markRow() {
  const pane = shownPane()
  for (const a of all('#inbox-rows a')) a.toggleAttribute('aria-current', false)
  const row = pane && $(`#row-${CSS.escape(pane.id)} a`)
  row?.setAttribute('aria-current', 'true')
}

// --- The start

// A link of another site comes without the cookie; a navigation of this page has it.
if (body.hasAttribute('data-again')) location.replace(location.pathname + location.search)
localize()
count()
guard()
if (page === 'session') {
  if (!location.hash && !location.search) toEnd()
  if (!new URLSearchParams(location.search).has('before')) {
    connect()
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) return source.readyState === EventSource.CLOSED && connect()
      clearTimeout(timer)
      source.close() // browsers bound the connections to a server; the stream resumes when the page is seen again
    })
  }
}
if (page === 'sessions' || page === 'inbox') {
  setInterval(() => { if (!document.hidden) refresh() }, 3000)
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh() })
  const filters = $('.filters')
  if (filters) filters.onchange = e => e.target.type !== 'search' && filters.requestSubmit()
  markRow()
  addEventListener('hashchange', markRow)
}
