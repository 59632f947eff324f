"""What workers import through the setting ``handlers``: from then on the page of ``hanging_page`` hangs."""

from tests.night import hanging_page

MODULE = __name__

hanging_page.install()
