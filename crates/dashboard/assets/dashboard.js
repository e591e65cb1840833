// Keeps the page up to date, and opens the node at a place of the map. The page is complete without
// this script.
"use strict";

const offline = document.getElementById("offline");

/** The latest sections that are not shown yet, by name. */
const waiting = new Map();
let isPressed = false;

/** Whether a person is clicking, or has selected text of a section: it must not change then. */
function isInUse(shown) {
  const selection = getSelection();
  return isPressed || (!selection.isCollapsed && shown.contains(selection.anchorNode));
}

/** Takes the sections of an event. */
function take(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const section of [...template.content.children]) waiting.set(section.id, section);
  show();
}

/** Replaces the sections that differ; keeps focus and scroll position. */
function show() {
  for (const [id, section] of waiting) {
    const shown = document.getElementById(id);
    if (shown && isInUse(shown)) continue;
    waiting.delete(id);
    if (!shown) {
      document.getElementById("content").append(section);
    } else if (shown.dataset.digest !== section.dataset.digest) {
      const focused = shown.contains(document.activeElement) ? document.activeElement.id : "";
      update(shown, section);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
  }
}

document.addEventListener("pointerdown", () => { isPressed = true; });
for (const end of ["pointerup", "pointercancel", "blur"]) {
  window.addEventListener(end, () => {
    isPressed = false;
    // After the click.
    setTimeout(show, 0);
  });
}
document.addEventListener("selectionchange", show);

function update(shown, section) {
  const isOpen = [...shown.querySelectorAll("details")].map((details) => details.open);
  section.querySelectorAll("details").forEach((details, at) => { details.open = isOpen[at] ?? false; });
  shown.replaceChildren(...section.childNodes);
  shown.dataset.digest = section.dataset.digest;
  const label = section.getAttribute("aria-labelledby");
  if (label) shown.setAttribute("aria-labelledby", label);
  else shown.removeAttribute("aria-labelledby");
  announce();
}

/** Lets a screen reader say the state when it changes, and not each number. */
function announce() {
  const state = document.querySelector("[data-state]")?.dataset.state ?? "";
  const announcer = document.getElementById("announcer");
  if (announcer.textContent !== state) announcer.textContent = state;
}

let events = null;

/** Follows the sections of this page. */
function connect() {
  // A browser allows few connections to one server: a page that nobody sees needs none.
  events?.close();
  if (document.hidden) return;
  events = new EventSource(new URL(document.body.dataset.live, document.baseURI));
  events.addEventListener("sections", (event) => {
    offline.hidden = true;
    take(event.data);
  });
  events.onopen = () => { offline.hidden = true; };
  events.onerror = () => { offline.hidden = false; };
}

/** Shows the DaemonSets that match what was typed so far. */
function filter() {
  const query = new URLSearchParams(new FormData(this.form));
  history.replaceState(null, "", new URL(`?${query}`, document.baseURI));
  document.body.dataset.live = `live?${query}`;
  connect();
}

/** Suggests the nodes whose names contain what was typed so far. */
async function suggest() {
  const query = new URLSearchParams({ part: this.value });
  const answer = await fetch(new URL(`node-names?${query}`, document.baseURI));
  if (answer.ok) this.list.innerHTML = await answer.text();
}

/** Calls a function with a field soon after somebody has typed there. */
function afterInput(name, call) {
  const field = document.getElementById(name);
  let pause = 0;
  field?.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(call.bind(field), 100);
  });
}

afterInput("filter", filter);
afterInput("node-name", suggest);

document.addEventListener("click", (event) => {
  const map = event.target.closest?.("svg.map");
  if (!map) return;
  const box = map.getBoundingClientRect();
  const columns = Number(map.dataset.columns);
  const cell = box.width / columns;
  const column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / cell));
  const index = Math.floor((event.clientY - box.top) / cell) * columns + column;
  if (index >= Number(map.dataset.nodes)) return;
  const places = map.closest("[data-places]").dataset.places;
  location.href = new URL(`${places}?zone=${map.dataset.zone}&cell=${index}`, document.baseURI);
});

document.addEventListener("keydown", (event) => {
  const types = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key !== "/" || types || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  (document.getElementById("filter") ?? document.getElementById("node-name")).focus();
});

if (document.body.dataset.live) {
  document.addEventListener("visibilitychange", connect);
  connect();
}

// A page from the cache of the browser is old.
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
