"""`top` on the terminal: a table for each view, totals above, a filter below; an exchange on a screen of its own.

Peers' names are made printable, and never read as markup. Requests are made in threads, so that keys work while a proxy
does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs
from textual.worker import get_current_worker

from proxy.terminal import printable
from recorder.top.client import Client, Json, NoAnswer, ProxyState, WrongFilter
from recorder.top.model import (
    EXCHANGES,
    OF_EXCHANGES,
    VIEWS,
    Column,
    Model,
    Row,
    condition,
    fitting,
    of_exchange,
    ordered,
    size,
)

# seconds until a proxy that does not answer is asked again
_PAUSE = 2.0
_SECOND = 1.0
# from so many columns on, the first line names the proxy
_WIDE = 80
# exchanges that the list shows
_LISTED = 100
# what comes of an answer of another shape: each view reads what it shows
_MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_UNREADABLE = "the proxy tells what can't be read: right would be a proxy of this version"
# no line is wider than the narrowest terminal that all of `top` suits
_HELP = """\
1 … 8, Tab  another view
↑ ↓         choose a row
Enter       its exchanges: what the row stands for joins
            the filter; of an exchange, both of its frames
Esc         back: from an exchange to the list, from the
            list to the whole
s  r        order by the next column; the other way round
/           a filter, as `inspect` takes it:
            api == Produce and topic ~ "ord*" and error
p, Space    pause: what is shown stays, what passes is still
            counted
q           quit

Sums and rates begin when `top` does, and anew with each
filter. Lag is what was seen on the wire since then.

`missed` are frames that passed while the process beside the
proxy could not keep up: they are in no sum.

`dropped` is what the recorder has lost since the proxy
began. Where nothing is recorded, it is what those who look
did not get.
"""


class _Pages(Screen[None]):
    """A text that scrolls; Esc leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "back"),
    ]

    def __init__(self, lines: Iterator[Text]) -> None:
        super().__init__()
        self._text = Text("\n").join(lines)

    def compose(self) -> ComposeResult:
        """The widgets."""
        with VerticalScroll(can_focus=True):
            yield Static(self._text)
        yield Footer(show_command_palette=False)


class TopApp(App[None]):
    """The whole of it. `client`: asks the proxy; `text`: the filter to begin with."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kafka-wiretap top"
    CSS = """
    Screen { layers: base; }
    #totals { height: auto; max-height: 2; padding: 0 1; }
    #bounds { height: auto; max-height: 2; padding: 0 1; color: $text-muted; display: none; }
    #bounds.told { display: block; }
    #note { height: auto; max-height: 3; padding: 0 1; color: $text-warning; }
    Tabs { height: 2; }
    DataTable { height: 1fr; }
    Input { border: none; height: 1; padding: 0 1; display: none; background: $boost; }
    Input.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"view('{name}')", name, show=False)
            for number, name in enumerate((*VIEWS, EXCHANGES), 1)
        ),
        # the first ones are seen in a narrow terminal, too
        Binding("question_mark", "help", "help"),
        Binding("q", "quit", "quit"),
        Binding("slash", "filter", "filter"),
        Binding("enter", "choose", "exchanges", show=True, priority=False),
        Binding("escape", "back", "back"),
        Binding("s", "order", "order"),
        Binding("r", "reverse", "reverse"),
        Binding("p,space", "pause", "pause"),
    ]

    def __init__(self, client: Client, text: str = "") -> None:
        super().__init__()
        self._client, self._filter = client, text
        self._model = Model()
        self._view = "apis"
        # filters to go back to, with the view that was shown
        self._earlier: list[tuple[str, str]] = []
        self._order: dict[str, str] = {name: view.order for name, view in VIEWS.items()} | {EXCHANGES: ""}
        self._reversed: set[str] = set()
        self._is_paused = False
        self._delay = ""
        self._exchanges: list[Row] = []
        self._shown: list[Row] = []

    def compose(self) -> ComposeResult:
        """The widgets."""
        with Vertical():
            yield Static(id="totals", markup=False)
            yield Tabs(*(Tab(f"{number} {name}", id=name) for number, name in enumerate((*VIEWS, EXCHANGES), 1)))
            yield DataTable(cursor_type="row", zebra_stripes=True)
            yield Static(id="bounds", markup=False)
            yield Static(id="note", markup=False)
            yield Input(placeholder='api == Produce and topic ~ "ord*" and error', value=self._filter)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begins to watch."""
        self._table.focus()
        self._watch(self._filter)
        self._ask_for_more()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    # what the proxy tells

    @work(thread=True, exclusive=True, group="watch")
    def _watch(self, text: str) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                for told in self._client.watch(text):
                    if worker.is_cancelled:
                        return
                    self._from_thread(self._take, text, told)
            except WrongFilter as error:
                self._from_thread(self._say, f"{error}\n{text}\n{' ' * error.at}^")
                return
            except NoAnswer as error:
                self._from_thread(self._say, f"{error}; asking again")
            if not worker.is_cancelled:
                self._from_thread(self._model.forget)
                _wait(worker, _PAUSE)

    @work(thread=True, exclusive=True, group="more")
    def _ask_for_more(self) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            try:
                state = self._client.state()
                exchanges = self._client.exchanges(self._filter, _LISTED) if self._view == EXCHANGES else None
                self._from_thread(self._take_more, state, exchanges)
            except (NoAnswer, WrongFilter):
                # the other thread says so
                pass
            _wait(worker, _SECOND)

    def _from_thread(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Calls it in the application's thread, unless that takes down the screen: widgets go before workers do."""
        self.call_from_thread(lambda: callback(*arguments) if self.is_running else None)

    def _take(self, text: str, told: Json) -> None:
        if text != self._filter:
            return
        self._model.tell(told)
        if self._refresh():
            self._say(self._delay)

    def _take_more(self, state: ProxyState, exchanges: list[Json] | None) -> None:
        self._model.state = state
        if exchanges is not None and not self._is_paused:
            self._exchanges = []
            try:
                self._exchanges = [of_exchange(line) for line in exchanges]
            except _MISFITS:
                self._say(_UNREADABLE)
            else:
                self._refresh()

    def _say(self, problem: str) -> None:
        self.query_one("#note", Static).update(Text("\n".join(map(printable, problem.split("\n")))))

    # what is shown

    def _refresh(self) -> bool:
        """Shows what was told; False if it can't be read, and is forgotten."""
        try:
            self._delay = self._model.delay
            if not self._is_paused:
                self._show_table()
        except _MISFITS:
            self._model.forget()
            self._exchanges = []
            self._say(_UNREADABLE)
            return False
        return True

    def _show_table(self) -> None:
        self.query_one("#totals", Static).update(self._totals())
        columns = fitting(OF_EXCHANGES if self._view == EXCHANGES else VIEWS[self._view].columns, self.size.width - 2)
        rows = self._exchanges if self._view == EXCHANGES else self._rows()
        self._fill(columns, rows)
        self._show_bounds("" if self._view == EXCHANGES else self._model.bounds(self._view))

    def _show_bounds(self, sentence: str) -> None:
        place = self.query_one("#bounds", Static)
        place.update(sentence)
        place.set_class(bool(sentence), "told")

    def _rows(self) -> list[Row]:
        by = next(one for one in VIEWS[self._view].columns if one.name == self._order[self._view])
        return ordered(self._model.rows(self._view), by, is_reversed=self._view in self._reversed)

    def _fill(self, columns: list[Column], rows: list[Row]) -> None:
        table, at = self._table, self._table.cursor_row
        self._shown = rows
        table.clear(columns=True)
        for column in columns:
            mark = ("▲" if self._view in self._reversed else "▼") if column.name == self._order[self._view] else ""
            title = Text(f"{column.title}{mark}", justify="right" if column.is_number else "left")
            table.add_column(title, width=_width(columns, column, self.size.width))
        for row in rows:
            table.add_row(*(_cell(column, row) for column in columns))
        if rows:
            table.move_cursor(row=min(at, len(rows) - 1))

    def _totals(self) -> Text:
        told, line = self._model.totals(), Text()
        if self.size.width >= _WIDE:
            line.append(f"{self._client.address}  ", "bold")
        if told:
            line.append(f"{told['exchanges']:,.0f} exch/s  {size(told['bytes'])}/s")
            line.append(f"  {told['errors']:,.1f} err/s", "bold red" if told["errors"] else "")
            if told["missed_times"]:
                line.append(f"  missed {told['missed']:,.0f}", "bold yellow")
        losses, is_lost = self._model.losses
        if losses:
            line.append(f"  {losses}", "bold yellow" if is_lost else "dim")
        if self._is_paused:
            line.append("  PAUSED", "reverse")
        if self._filter:
            line.append(f"  {printable(self._filter)}", "cyan")
        return line

    # keys

    def on_resize(self, _: Resize) -> None:
        """Shows the columns that have room now."""
        self._refresh()

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Shows the view of a tab."""
        if event.tab is not None and event.tab.id is not None:
            self._view = event.tab.id
            self._exchanges = []
            self._refresh()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a row: its exchanges, or an exchange itself."""
        self.action_choose()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The filter was written."""
        event.input.remove_class("asked")
        self._table.focus()
        self._look_at(event.value.strip())

    def action_view(self, name: str) -> None:
        """Shows a view."""
        self.query_one(Tabs).active = name

    def action_filter(self) -> None:
        """Asks for a filter."""
        field = self.query_one(Input)
        field.value = self._filter
        field.add_class("asked")
        field.focus()

    def action_choose(self) -> None:
        """Shows the exchanges of the row under the cursor; of an exchange, both of its frames."""
        if not 0 <= self._table.cursor_row < len(self._shown):
            return
        row = self._shown[self._table.cursor_row]
        if self._view == EXCHANGES:
            self._open(row["id"])
            return
        said = condition(VIEWS[self._view], row)
        self._earlier.append((self._filter, self._view))
        self._look_at(" and ".join(filter(None, (f"({self._filter})" if self._filter else "", said))))
        self.action_view(EXCHANGES)

    async def action_back(self) -> None:
        """Closes the filter; else goes back to what was shown before."""
        field = self.query_one(Input)
        if field.has_class("asked"):
            field.remove_class("asked")
            self._table.focus()
        elif self._earlier:
            text, view = self._earlier.pop()
            self._look_at(text)
            self.action_view(view)
        elif self._filter:
            self._look_at("")

    def action_order(self) -> None:
        """Orders by the next column."""
        if self._view != EXCHANGES:
            names = [one.name for one in VIEWS[self._view].columns]
            self._order[self._view] = names[(names.index(self._order[self._view]) + 1) % len(names)]
            self._refresh()

    def action_reverse(self) -> None:
        """Turns the order round."""
        self._reversed ^= {self._view}
        self._refresh()

    def action_pause(self) -> None:
        """Keeps what is shown, or goes on."""
        if not self._is_paused:
            self._is_paused = True
            self.query_one("#totals", Static).update(self._totals())
        else:
            self._is_paused = False
            self._refresh()

    def action_help(self) -> None:
        """Explains the keys."""
        self.push_screen(_Pages(iter([Text(_HELP)])))

    def _look_at(self, text: str) -> None:
        self._filter = text
        self._model.forget()
        self._exchanges = []
        self._say("")
        self._watch(text)
        self._refresh()

    @work(thread=True, exclusive=True, group="open")
    def _open(self, name: str) -> None:
        try:
            found = self._client.exchange(name)
        except (NoAnswer, WrongFilter) as error:
            self._from_thread(self._say, str(error))
            return
        self._from_thread(self._show, found)

    def _show(self, found: Json) -> None:
        try:
            page = _Pages(_exchange(found))
        except _MISFITS:
            self._say(_UNREADABLE)
        else:
            self.push_screen(page)


def _cell(column: Column, row: Row) -> Text:
    value = row.get(column.name)
    text = "" if value is None else column.shown(value)
    justify = "right" if column.is_number else "left"
    return Text(text, _style(column.name, value), justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]


def _style(name: str, value: Any) -> str:
    if name in ("errors", "errors_s", "error_text", "error") and value:
        return "red"
    if name == "state":
        return "bold white on red" if value == "DOWN" else "green"
    return "bold" if name == "lag" and value else ""


def _width(columns: list[Column], column: Column, width: int) -> int:
    """The width of a column: its own; of text also its part of the room that is left."""
    if column.is_number:
        return column.width
    left = width - 2 - sum(one.width + 2 for one in columns)
    return column.width + max(left, 0) // sum(not one.is_number for one in columns)


def _wait(worker: Any, seconds: float) -> None:
    """Waits, or until the worker is cancelled."""
    worker.cancelled_event.wait(seconds)


def _exchange(found: Json) -> Iterator[Text]:
    """An exchange as lines of text."""
    yield Text(printable(found["id"]), "bold")
    for name, value in found["head"]:
        yield Text.assemble((f"  {name:<17}", "dim"), printable(value))
    if found["errors"]:
        yield Text(f"  {printable(found['errors'])}", "red")
    for frame in found["frames"]:
        yield Text("")
        yield Text(f"{printable(frame['kind'])}  {printable(frame['at'])}  {size(frame['size'])}", "bold")
        for note in frame["notes"]:
            yield Text(f"  {printable(note)}", "yellow")
        for line in frame["lines"]:
            yield Text("  " * (line["depth"] + 1) + printable(line["text"]))
