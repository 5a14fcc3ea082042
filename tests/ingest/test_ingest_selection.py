"""Which records are ours: several instruments in a file, rolls, files of strangers, days without anything."""

from datetime import date, timedelta

import polars as pl
import pytest
from dbn_builder import DAY, T0, TICK, Interval, Mapping, Msg, header, mapping_record, write
from ingested_day import facts, load

from alpha_core.errors import InputError
from alpha_pipeline.ingest import QualityThresholds, ingest_day, open_table, read_report
from alpha_pipeline.ingest.quality import assess_day
from alpha_pipeline.ingest.tables import REPORT, SNAPSHOT_SCHEMA, SNAPSHOTS, TRADE_SCHEMA, TRADES
from alpha_pipeline.instrument import InstrumentSpec

ES = InstrumentSpec(name="es", symbols=("ES",), tick_size="0.25")


def trade(ts: int, number: int, size: int) -> Msg:
    return Msg(ts=ts, instrument_id=number, action="T", side="B", price=20_000 * TICK, size=size)


def test_records_of_other_instruments_are_counted_and_left_out(ingest):
    records = [Msg(ts=T0 + k, instrument_id=1 + k % 3, sequence=k) for k in range(9)]
    day = ingest(records, head=header({"TEST": 1, "OTHER": 2, "TESTX": 3}))
    assert day.snapshots["sequence"].to_list() == [0, 3, 6]
    assert day.report.skipped == {"other_instrument": 6}
    assert day.report.instruments == {"1": 3, "2": 3, "3": 3}
    assert (day.report.symbol, day.report.candidates) == ("TEST", {})


def test_events_of_interleaved_instruments_do_not_mix(ingest):
    records = [
        Msg(ts=T0, instrument_id=1, action="T", side="B", price=TICK, size=1, flags=0, sequence=0),
        Msg(ts=T0, instrument_id=2, sequence=1),
        Msg(ts=T0, instrument_id=1, sequence=2),
    ]
    day = ingest(records, head=header({"TEST": 1, "OTHER": 2}))
    assert day.snapshots["sequence"].to_list() == [2]
    assert day.trades["snapshot_row"].to_list() == [0]


def test_front_contract_is_the_one_with_the_largest_volume(ingest):
    records = [trade(T0, 1, 5), trade(T0 + 1, 2, 9), Msg(ts=T0 + 2, instrument_id=1), trade(T0 + 3, 3, 99)]
    day = ingest(records, spec=ES, head=header({"ESH4": 1, "ESM4": 2, "MESH4": 3}))
    assert (day.report.symbol, day.report.instrument_ids) == ("ESM4", (2,))
    assert day.report.candidates == {
        "ESH4": {"volume": 5, "records": 2},
        "ESM4": {"volume": 9, "records": 1},
    }
    assert day.snapshots["instrument_id"].to_list() == [2]


def test_front_contract_without_trades_is_the_one_with_most_records(ingest):
    records = [Msg(ts=T0 + k, instrument_id=1 + (k > 0)) for k in range(3)]
    assert ingest(records, spec=ES, head=header({"ESH4": 1, "ESM4": 2})).report.symbol == "ESM4"


def test_front_contract_is_chosen_over_all_files_of_the_day(tmp_path):
    head = header({"ESH4": 1, "ESM4": 2})
    first = write(tmp_path / "a.dbn.zst", [trade(T0, 1, 5)], head=head)
    second = write(tmp_path / "b.dbn.zst", [trade(T0 + 1, 2, 4), trade(T0 + 2, 1, 1)], head=head)
    report = ingest_day([first, second], ES, tmp_path / "day")
    assert (report.symbol, report.snapshots) == ("ESH4", 2)
    assert report.candidates["ESM4"] == {"volume": 4, "records": 1}


def test_contract_roll_inside_a_file_starts_a_segment(tmp_path):
    """A continuous symbol changes its contract at midnight: ids follow the mapping's dates."""
    night = int(T0 - T0 % (86_400 * 10**9)) + 86_400 * 10**9
    after = DAY + timedelta(days=1)
    mapping = Mapping("ES.c.0", [Interval(DAY, after, "1"), Interval(after, after + timedelta(days=1), "2")])
    records = [
        Msg(ts=night - 2, instrument_id=1, sequence=0),
        Msg(ts=night - 1, instrument_id=2, sequence=1),  # not yet the front contract
        Msg(ts=night, instrument_id=2, sequence=2),
        Msg(ts=night + 1, instrument_id=1, sequence=3),  # no longer
        Msg(ts=night + 2, instrument_id=2, sequence=4),
    ]
    head = header(mappings=[mapping], symbols=["ES.c.0"])
    path = write(tmp_path / "x.dbn.zst", records, head=head)
    report = ingest_day([path], ES, tmp_path / "day")
    day = load(tmp_path / "day", report)
    assert day.snapshots["sequence"].to_list() == [0, 2, 4]
    assert day.snapshots["segment"].to_list() == [0, 1, 1]
    assert report.instrument_ids == (1, 2)
    assert report.breaks == {"roll": 1}
    assert report.skipped == {"outside_mapping": 2}


def test_file_of_another_instrument_is_refused_with_both_names(ingest):
    head = header({"MESH4": 1, "NQH4": 2})
    with pytest.raises(InputError, match="has the symbols MESH4, NQH4, instrument es wants ES: "):
        ingest([Msg()], spec=ES, head=head)


def test_error_of_a_file_with_many_symbols_stays_one_short_sentence(ingest):
    with pytest.raises(InputError, match=r"S0, S1, S10, S11, S12 and 25 more, instrument es"):
        ingest([Msg()], spec=ES, head=header({f"S{k}": k for k in range(30)}))


def test_records_without_any_mapping_are_refused(ingest):
    with pytest.raises(InputError, match="maps no symbol to its 1 records"):
        ingest([Msg()], head=header(mappings=[], symbols=[]))


def test_records_of_a_file_that_asked_for_the_instrument_and_maps_nothing_are_refused(ingest):
    """The symbol is in the header's request and in no mapping: its records are there and cannot be told."""
    with pytest.raises(InputError, match="maps no symbol to its 1 records"):
        ingest([Msg()], head=header(mappings=[]))


@pytest.mark.parametrize("ids", [{"TEST": 1}, {"TEST": 1, "OTHER": 2}, {"OTHER": 2}])
def test_a_day_of_records_that_no_mapping_names_is_rejected_and_not_empty(ingest, ids):
    """Whose they are nobody knows, so that they may be the instrument's; those of OTHER are not."""
    records = [Msg(instrument_id=99), *[Msg(instrument_id=2)] * ("OTHER" in ids)]
    day = ingest(records, head=header(ids, symbols=["TEST", "OTHER"]))
    assert day.report.losses == {"unmapped_instrument": 1}
    assert day.report.records_of_instrument == 1
    assert day.report.skipped.get("other_instrument", 0) == len(records) - 1
    quality = assess_day(facts(day), QualityThresholds())
    assert quality.status == "rejected"
    sentence = next(check.description for check in quality.checks if check.name == "skipped_fraction")
    assert "could not be used: 1 (of 1 records 1 unmapped_instrument), must be at most 0.001" in sentence


def test_records_outside_of_the_dates_of_their_mapping_leave_their_own_dates_in_the_report(ingest):
    day = ingest([Msg(ts=T0 - 86_400 * 10**9), Msg(), Msg(ts=T0 + 86_400 * 10**9)])
    assert day.report.left_out_dates == ("2024-03-05", "2024-03-07")
    assert day.report.utc_dates == ("2024-03-06",)
    assert day.report.losses == {"outside_mapping": 2}


def test_records_of_a_mapping_that_comes_behind_them_are_of_another_instrument(ingest):
    """Which ids have a name is known at the end of a live capture only."""
    day = ingest([Msg(), Msg(instrument_id=7), mapping_record("OTHER", 7)])
    assert day.report.skipped == {"other_instrument": 1}


EMPTY = {
    "metadata only": (header(), []),
    "no mappings, no records": (header(mappings=[], symbols=[]), []),
    "asked for and not resolved": (header(mappings=[]), []),
    "asked for, others resolved": (header({"OTHER": 7}, symbols=["TEST", "OTHER"]), [Msg(instrument_id=7)]),
    "records of another id only": (header({"TEST": 1, "OTHER": 2}), [Msg(instrument_id=2)] * 3),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_empty_input_is_an_explicit_empty_day(tmp_path, kind, ingest):
    head, records = EMPTY[kind]
    day = ingest(records, head=head)
    assert day.report.status == "empty"
    assert day.report.empty
    assert (day.snapshots.height, day.trades.height, day.report.segments) == (0, 0, 0)
    assert day.report.first_ts_recv is None
    assert day.report.skipped == ({"other_instrument": len(records)} if records else {})
    assert open_table(tmp_path / "day" / SNAPSHOTS).schema == SNAPSHOT_SCHEMA
    assert open_table(tmp_path / "day" / TRADES).schema == TRADE_SCHEMA
    assert (tmp_path / "day" / REPORT).is_file()
    assert read_report(tmp_path / "day") == day.report
    full = ingest([Msg()]).snapshots.schema
    assert day.snapshots.schema == full
    assert isinstance(full["ts_recv"], pl.Datetime)


def test_mapping_by_id_is_read_the_other_way_round(tmp_path, spec):
    import databento_dbn as dbn

    head = dbn.Metadata(
        dataset="GLBX.MDP3",
        start=T0,
        stype_in=dbn.SType.INSTRUMENT_ID,
        stype_out=dbn.SType.RAW_SYMBOL,
        schema=dbn.Schema.MBP_10,
        symbols=["1"],
        partial=[],
        not_found=[],
        mappings=[Mapping("1", [Interval(date(2024, 3, 6), date(2024, 3, 7), "TEST")])],
    ).encode()
    report = ingest_day([write(tmp_path / "x.dbn.zst", [Msg()], head=head)], spec, tmp_path / "day")
    assert (report.symbol, report.snapshots) == ("TEST", 1)
