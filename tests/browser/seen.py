"""What is wrong with a page as a browser lays it out: errors, requests, overflow, texts over each other."""

from contextlib import contextmanager

SIZES = {"desk": (1400, 900), "phone": (390, 844)}

# Texts that share more than two pixels each way, of which neither is inside the other; folded and clipped ones are not seen.
OVERLAPS = """() => {
  const seen = [];
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
    if (!words.length || !element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    for (const node of words) {
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects())
        if (box.width > 2 && box.height > 2) seen.push([element, box, node.data.trim().slice(0, 30)]);
    }
  }
  seen.sort((a, b) => a[1].top - b[1].top);
  const found = [];
  seen.forEach(([element, box, text], index) => {
    for (let other = index + 1; other < seen.length && seen[other][1].top < box.bottom - 2; other++) {
      const [second, below, words] = seen[other];
      const wide = Math.min(box.right, below.right) - Math.max(box.left, below.left);
      const high = Math.min(box.bottom, below.bottom) - Math.max(box.top, below.top);
      if (wide > 2 && high > 2 && element !== second && !element.contains(second) && !second.contains(element))
        found.push(`${text} | ${words}`);
    }
  });
  return found;
}"""
# What is wider than the window and cannot be scrolled inside a box of its own.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > width + 1);
  return wide.map(e => `${e.tagName}.${e.className.baseVal ?? e.className}`).slice(0, 5).concat(`page: ${document.documentElement.scrollWidth}`);
}"""


@contextmanager
def page_at(browser, size: str, address: str, **options):
    """Yield the page at `address` with the errors of its console and the requests it made beside itself."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page, errors, requests
    context.close()


def list_faults(page, errors: list[str]) -> dict[str, list[str]]:
    """Return what is wrong with a page, by kind; empty where nothing is."""
    faults = {"console": errors, "overflow": page.evaluate(OVERFLOW), "overlaps": page.evaluate(OVERLAPS)}
    return {kind: found for kind, found in faults.items() if found}
