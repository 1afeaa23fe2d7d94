import pytest
from rich.console import Console

from orchestrator.bench.load import Load, Sample, Target
from orchestrator.bench.overhead import (
    CONCURRENCIES,
    MANY_TOKENS,
    NAMES,
    TOKENS,
    Cell,
    Name,
    compare,
    plan,
    summary,
)
from orchestrator.cli.bench import cells_table, summary_table


def sample(wall: float = 1.0, p50: float = 0.1, cpu: float = 0.0) -> Sample:
    """The slowest request is far off the median, which must not matter."""
    return Sample(wall, (p50, p50 / 2, 50.0), cpu, client_cpu_s=wall / 4)


def one(ours: Sample, stock: Sample, again: Sample) -> dict[Name, Sample]:
    return {"ours": ours, "stock": stock, "again": again}


def load(
    pace: float = 0, tokens: int = TOKENS, stream: bool = False, clients: int = 32
) -> Load:
    return Load(pace, tokens, stream, clients, requests=100)


def test_each_round_is_compared_with_itself_and_the_median_counts() -> None:
    cell = Cell(
        load(),
        (
            one(sample(2.0, 0.2), sample(1.0, 0.1), sample(1.0, 0.1)),
            # The machine was slow for all of this round: its ratios are sound.
            one(sample(40.0, 4.0), sample(20.0, 2.0), sample(25.0, 2.0)),
            one(sample(90.0, 9.0), sample(1.0, 0.1), sample(2.0, 0.3)),
        ),
    )
    assert cell.throughput("ours") == pytest.approx(0.5)
    assert cell.throughput("again") == pytest.approx(0.8)
    assert cell.latency("ours") == pytest.approx(2.0)
    assert cell.latency("again") == pytest.approx(1.0)


def test_processor_time_is_for_a_request_and_beyond_stock() -> None:
    rounds = one(sample(cpu=0.25), sample(cpu=0.20), sample(cpu=0.19))
    cell = Cell(load(), (rounds,))
    assert cell.added_cpu_us("ours") == pytest.approx(500)
    assert cell.added_cpu_us("again") == pytest.approx(-100)


def streams() -> tuple[Cell, Cell]:
    """Ours adds 300 µs for a request and 5 µs for a token, over 100 requests."""

    def cell(tokens: int) -> Cell:
        stock = sample(cpu=0.5 + tokens * 0.01)
        ours = sample(cpu=stock.ingress_cpu_s + 100 * (300 + 5 * tokens) / 1e6)
        return Cell(load(tokens=tokens, stream=True), (one(ours, stock, stock),))

    return cell(TOKENS), cell(MANY_TOKENS)


def test_a_chunks_cost_is_what_longer_streams_add() -> None:
    few, many = streams()
    assert few.chunk_cpu_us(many, "ours") == pytest.approx(5)
    assert few.chunk_cpu_us(many, "again") == pytest.approx(0)


def test_the_summary_has_the_worst_paced_cell_and_the_same_cells_noise() -> None:
    def paced(clients: int, stream: bool, ours: float, again: float) -> Cell:
        rounds = one(sample(ours, ours), sample(1.0, 1.0), sample(again, again))
        return Cell(load(20, stream=stream, clients=clients), (rounds,))

    whole = Cell(load(), (one(sample(cpu=0.03), sample(cpu=0.01), sample(cpu=0.01)),))
    cells = [
        paced(1, False, 1.0, 1.0),
        paced(1, True, 1.25, 2.0),
        paced(32, False, 2.0, 4.0),
        paced(32, True, 0.5, 1.0),
        whole,
        *streams(),
    ]
    assert summary(cells) == {
        "throughput": {"c1": 0.8, "c32": 0.5},
        "latency_p50": {"c1": 1.25, "c32": 2.0},
        "cpu_us": {"request": 200.0, "chunk": 5.0},
        "same": {
            "throughput": {"c1": 0.5, "c32": 0.25},
            "latency_p50": {"c1": 2.0, "c32": 4.0},
            "cpu_us": {"request": 0.0, "chunk": 0.0},
        },
    }


def test_the_plan_has_every_kind_once_and_whole_runs() -> None:
    loads = plan(10)
    kinds = [(x.pace_ms, x.tokens, x.stream, x.concurrency) for x in loads]
    assert len(set(kinds)) == len(kinds)
    for clients in CONCURRENCIES:
        for stream in (False, True):
            assert (20.0, TOKENS, stream, clients) in kinds
            assert (0.0, TOKENS, stream, clients) in kinds
        assert (0.0, MANY_TOKENS, True, clients) in kinds
    # At the end of a run no client waits for another's last request.
    assert all(x.requests % x.concurrency == 0 for x in loads if x.pace_ms)


def test_every_ingress_comes_first_in_some_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = []

    async def run(session: object, target: Target, load: Load) -> Sample:
        sent.append((target.url, load.pace_ms))
        return sample()

    monkeypatch.setattr("orchestrator.bench.overhead.run", run)
    told: list[Load] = []
    ours, stock = Target("ours", 1), Target("stock", 2)
    cells = compare(ours, stock, [load(20)], 3, told.append)
    urls = [url for url, pace in sent if pace == 20]
    assert urls == [
        *("ours", "stock", "stock"),
        *("stock", "stock", "ours"),
        *("stock", "ours", "stock"),
    ]
    assert told == [load(20)] * 9
    (cell,) = cells
    assert [set(r) for r in cell.rounds] == [set(NAMES)] * 3


def test_the_tables_fit_a_terminal_and_say_what_was_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = one(sample(20, 5.6391, 12.0), sample(19, 5.5, 11.9), sample(21, 5.6, 11.9))
    cells = [Cell(load, (slow,)) for load in plan(10)]
    console = Console(width=80)
    console.print(cells_table(cells), summary_table(summary(cells)))
    text = capsys.readouterr().out
    assert "…" not in text
    for figure in ("0.950", "0.905", "5639", "256 chunks", "120000"):
        assert figure in text, figure
    row = next(line for line in text.splitlines() if "throughput, conc" in line)
    assert "0.950" in row
    assert "no" in row
    row = next(line for line in text.splitlines() if "median latency, conc" in line)
    assert "1.025" in row
    assert "yes" in row
