"""Working a page with nothing but the keyboard, as somebody who sees where the focus is."""

from __future__ import annotations

from playwright.sync_api import Page

# What somebody must be able to say of the focused element: it is drawn, it is on the screen, nothing covers it, and a ring shows it.
_FOCUS = """() => {
  const node = document.activeElement;
  if (!node || node === document.body) return "nothing has the focus";
  const box = node.getBoundingClientRect(), style = getComputedStyle(node), name = node.id || node.outerHTML.slice(0, 120);
  if (!box.width || !box.height) return `${name} has the focus and is not drawn`;
  const middle = [box.left + Math.min(box.width, innerWidth - box.left) / 2, box.top + Math.min(box.height, 40) / 2];
  if (middle[0] < 0 || middle[1] < 0 || middle[0] > innerWidth || middle[1] > innerHeight) return `${name} has the focus off the screen`;
  const top = document.elementFromPoint(...middle);
  if (!node.contains(top) && !top?.contains(node) && !node.labels?.length) {
    return `${name} has the focus behind ${top?.outerHTML.slice(0, 120)}`;
  }
  const ringless = style.outlineStyle === "none" && !node.matches("h1, h2, [tabindex='-1']");
  if (node.matches(":focus-visible") && ringless) return `${name} shows no ring`;
  return "";
}"""


class Keyboard:
    """Tab, letters and Enter on one page. After every Tab the focus must be seen."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def has_focus(self, selector: str) -> bool:
        return bool(self.page.evaluate("(selector) => document.activeElement?.matches(selector) ?? false", selector))

    def seen(self) -> None:
        wrong = self.page.evaluate(_FOCUS)
        assert not wrong, f"{wrong} on {self.page.url}"

    def tab_to(self, selector: str, most: int = 80, key: str = "Tab") -> None:
        """Press Tab until the element has the focus."""
        for _ in range(most):
            if self.has_focus(selector):
                return
            self.press(key)
            if not self.page.evaluate("document.activeElement === document.body"):  # the end of the page, on the way round
                self.seen()
        raise AssertionError(f"{most} Tabs do not lead to {selector} on {self.page.url}")

    def go(self, selector: str) -> None:
        """Tab to it and press Enter."""
        self.tab_to(selector)
        self.press("Enter")
