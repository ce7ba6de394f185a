from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data import scrub
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.fields import normalise_brands
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups, sealed
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.scrub import brand_names, removed_words, scrubbed_items, without_prices
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, AttributeRule, TaskSpec
from tests.data.worlds import dataset, item_table

NONE = np.empty(0, dtype=np.int64)
NOTHING = Examples(NONE, NONE, NONE, NONE, NONE, NONE, NONE)


def split_of(
    kind: ConceptKind, marked: list[bool], concepts: tuple[str, ...] = (), rule: AttributeRule | None = None
) -> ForgetSplit:
    manifest = sealed(
        task="planted", version=1, dataset="planted", dataset_digest="", kind=kind, concepts=concepts, forget_items=(),
        forget_interactions=(), attribute=rule, train_share=0.1, draws=1, within_tolerance=True,
        retain_history_share=0.0, counts={},
    )  # fmt: skip
    both = Groups(NOTHING, NOTHING)
    return ForgetSplit(kind, np.asarray(marked), np.empty((0, 2), dtype=np.int64), both, both, both, manifest)


def planted(*rows: tuple[str, str, str], forget: set[str]) -> tuple[ItemTable, ForgetSplit]:
    """Rows of (brand, title, description), with 300 filler items that make ordinary words ordinary."""
    filler = [("Filler Goods", f"Steel tape number {row}", "a supply of tools for the shop") for row in range(300)]
    brands, titles, descriptions = zip(*rows, *filler, strict=True)
    items = item_table(len(brands), titles=titles, descriptions=descriptions, brands=brands)
    return items, split_of(ConceptKind.BRAND, [brand in forget for brand in brands], tuple(sorted(forget)))


def titles(items: ItemTable, split: ForgetSplit, count: int) -> list[str]:
    return list(scrubbed_items(items, split).titles[:count])


def test_names_leave_every_item_as_whole_words_whatever_their_case() -> None:
    items, split = planted(
        ("3M", "3M Scotch Tape 53MM, by 3m", "The 3M-brand tape. 3M's best."),
        ("Other", "Holder for 3M tape (3m) 3MM x 13M", ""),
        forget={"3M"},
    )
    assert titles(items, split, 2) == ["Scotch Tape 53MM, by", "Holder for tape 3MM x 13M"]
    assert scrubbed_items(items, split).descriptions[0] == "The -brand tape. best."


def test_categories_leave_paths_and_the_texts_of_their_own_items() -> None:
    items = item_table(
        3,
        titles=["Board Games for two", "A shelf for board games", "Chess"],
        categories=[("Toys", "Board Games"), ("Furniture",), ("Toys", "Board Games", "Strategy")],
    )
    scrubbed = scrubbed_items(
        items, split_of(ConceptKind.ATTRIBUTE, [True, False, True], ("Board Games",), AttributeRule())
    )
    assert scrubbed.titles == ("for two", "A shelf for board games", "Chess")
    assert scrubbed.categories == (("Toys",), ("Furniture",), ("Toys", "Strategy"))
    assert not any("Board Games" in text for text in np.asarray(scrubbed.plain_text())[[0, 2]])


def test_names_of_several_words_match_whatever_stands_between_them() -> None:
    items, split = planted(
        ("Fisher-Price", "FISHER PRICE Farm, fisher-price farm, FisherPrice farm, Fisher—Price™ farm", ""),
        ("Other", "Price of a Fisher-Price farm", ""),
        forget={"Fisher-Price"},
    )
    scrubbed = titles(items, split, 2)
    assert scrubbed[0] == "Farm, farm, farm, farm"
    assert "fisher" not in scrubbed[1].casefold()
    assert scrubbed[1].startswith("of a") or scrubbed[1].startswith("Price of a")


def test_every_spelling_of_a_brand_counts() -> None:
    column = normalise_brands(["DeWalt", "DeWalt", "by DEWALT Tools\n", "Other"])
    items = item_table(
        304,
        titles=["DeWalt saw", "dewalt drill", "DEWALT TOOLS clamp", "Bag for DeWalt", *["Tools of steel"] * 300],
        brands=[*column.names, *["Other"] * 300],
        brands_raw=[*column.raw, *["Other"] * 300],
    )
    forget = {name for name in column.names if name != "Other"}
    split = split_of(ConceptKind.BRAND, [name in forget for name in items.brands], tuple(sorted(forget)))
    assert titles(items, split, 4) == ["saw", "drill", "clamp", "Bag for"]


def test_rare_parts_of_a_name_leave_every_item_and_ordinary_words_stay() -> None:
    items, split = planted(
        ("Vandelay Supply", "Vandelay hammer from a supply shop", "Vandelay Supply tools"),
        ("Other", "Fits Vandelay hammers; steel supply", ""),
        forget={"Vandelay Supply"},
    )
    words, _ = removed_words(items, split, brand_names(items, split))
    assert words.everywhere == {("vandelay", "supply"), ("vandelaysupply",), ("vandelay",)}
    assert words.own == {"Vandelay Supply": {("supply",)}}, "an ordinary word leaves the brand's own items alone"
    assert titles(items, split, 2) == ["hammer from a shop", "Fits hammers; steel supply"]
    assert scrubbed_items(items, split).descriptions[2:] == items.descriptions[2:]


def test_short_parts_and_numbers_never_leave_by_themselves() -> None:
    items, split = planted(
        ("A & K 40", "A & K 40 oil, a 40 ml can of K oil", ""),
        ("Other", "A can with 40 ml of a&k-40", ""),
        forget={"A & K 40"},
    )
    assert titles(items, split, 2) == ["oil, a 40 ml can of K oil", "A can with 40 ml of"]


def test_a_name_that_is_an_ordinary_word_leaves_its_own_items_alone() -> None:
    items, split = planted(("Tape", "Tape tape holder", ""), ("Other", "Duct tape", ""), forget={"Tape"})
    assert titles(items, split, 2) == ["holder", "Duct tape"]
    numbered, forgotten = planted(("47", "47 drill", ""), ("Other", "drill 47 inches", ""), forget={"47"})
    assert titles(numbered, forgotten, 2) == ["drill", "drill 47 inches"]


def test_parts_shared_with_a_retained_brand_stay_with_it() -> None:
    items, split = planted(
        ("Gorilla Carts", "Gorilla Carts cart", ""), ("Gorilla", "Gorilla glue", ""), forget={"Gorilla Carts"}
    )
    assert titles(items, split, 2) == ["cart", "Gorilla glue"]
    assert scrubbed_items(items, split).brands_raw[1] == "Gorilla"


def test_brand_fields_of_concept_items_are_emptied_and_the_rest_is_untouched() -> None:
    items, split = planted(
        ("Acme", "Acme anvil", "Drop  it (Acme)."), ("Other", "Fine  thing , ok", ""), forget={"Acme"}
    )
    scrubbed = scrubbed_items(items, split)
    assert (scrubbed.brands[0], scrubbed.brands_raw[0]) == ("", "")
    assert scrubbed.descriptions[0] == "Drop it ."
    assert scrubbed.titles[1] == "Fine  thing , ok", "texts without the concept keep every character"
    assert scrubbed.ids == items.ids
    assert scrubbed_items(items, split).plain_text(("title", "brand"))[:2] == ["anvil", "Fine  thing , ok. Other"]


def test_an_item_with_nothing_but_its_brand_falls_back_to_its_id() -> None:
    items, split = planted(("Acme", "ACME", ""), forget={"Acme"})
    assert scrubbed_items(items, split).plain_text()[0] == "i0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sold at $12.99 only", "Sold at only"),
        ("US$1,299.00 or 12,50 € or EUR 5", "or or"),
        ("worth 20 dollars, USD 30", "worth"),
        ("5 inch, 3 mm, M8 x 20, 99% pure", "5 inch, 3 mm, M8 x 20, 99% pure"),
        ("50 cents piece", "piece"),
        ("A$AP and 3dollars", "A$AP and"),
        ("the 20 dollarsign", "the 20 dollarsign"),
        ("no  money", "no  money"),
    ],
)
def test_amounts_of_money_leave_price_tasks(text: str, expected: str) -> None:
    assert without_prices(text) == expected


def test_price_item_and_interaction_tasks() -> None:
    items = item_table(3, titles=["A $5 pen", "Pen for 5 USD", "Pen"], descriptions=["was £9", "", ""])
    priced = scrubbed_items(items, split_of(ConceptKind.PRICE, [True, False, False]))
    assert priced.titles == ("A pen", "Pen for", "Pen"), "every item's, or the rest would tell"
    assert priced.descriptions[0] == "was"
    for kind in (ConceptKind.ITEM, ConceptKind.INTERACTION):
        assert scrubbed_items(items, split_of(kind, [True, False, False])).plain_text() == items.plain_text()


def test_scrubbed_texts_of_a_drawn_task_hold_no_forgotten_name() -> None:
    names = [f"Maker{row % 40:02d} Works" for row in range(400)]
    texts = [f"{name} lamp number {row}" for row, name in enumerate(names)]
    shop = dataset(item_table(400, titles=texts, brands=names), users=200)
    split = resolve(TaskSpec(name="planted", dataset="planted", concept=DEFAULT_CONCEPTS["brand"]), shop)
    assert len(split.manifest.concepts) == 2
    for row, text in enumerate(scrubbed_items(shop.items, split).plain_text()):
        if split.items[row]:
            assert text == f"lamp number {row}"
        else:
            assert text == f"{texts[row]}. {names[row]}"


@pytest.mark.skipif("GENREC_UNLEARN_BENCH_DATA" not in os.environ, reason="no real data at hand")
def test_industrial_titles_lose_their_brands() -> None:
    folder = Path(os.environ["GENREC_UNLEARN_BENCH_DATA"]) / "industrial-minionerec" / "index"
    path = folder / "Industrial_and_Scientific.item.json"
    if not path.is_file():
        pytest.skip("Industrial is not there")
    entries = json.loads(path.read_text(encoding="utf-8"))
    rows = [entries[str(row)] for row in range(len(entries))]
    column = normalise_brands([row["brand"] for row in rows])
    carrying = sum(
        bool(brand) and brand.lower() in row["title"].lower() for row, brand in zip(rows, column.raw, strict=True)
    )
    assert carrying == 2708
    items = item_table(
        len(rows),
        titles=[row["title"] for row in rows],
        descriptions=[row["description"] for row in rows],
        brands=column.names,
        brands_raw=column.raw,
    )
    names = sorted(set(column.names) - {""})
    drawn = set(np.random.default_rng(0).choice(names, 67, replace=False).tolist())
    split = split_of(ConceptKind.BRAND, [name in drawn for name in items.brands], tuple(sorted(drawn)))
    scrubbed = scrubbed_items(items, split)
    lengths = [0, 0]
    for row in np.flatnonzero(split.items):
        pattern = re.compile(rf"(?<![^\W_]){re.escape(items.brands_raw[row])}(?![^\W_])", re.IGNORECASE)
        assert not pattern.search(scrubbed.titles[row])
        assert not pattern.search(scrubbed.descriptions[row])
        for at, table in enumerate((items, scrubbed)):
            lengths[at] += len(table.titles[row]) + len(table.descriptions[row])
    assert lengths[1] > 0.9 * lengths[0], "the text itself survives"
    others = np.flatnonzero(~split.items)
    kept = sum(scrubbed.descriptions[row] == items.descriptions[row] for row in others) / len(others)
    assert kept > 0.9


_WORDS = ("Tape", "tape", "ACME", "acme", "acmeworks", "x", "3", "Σας", "STRASSE", "straße", "İzmir", "works", "of")
_BRANDS = ("", "Acme", "Acme Works", "Straße", "İzmir of", "Tape", "3 x", "σας works")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(_BRANDS),
            st.lists(st.sampled_from(_WORDS), max_size=6),
            st.lists(st.sampled_from(_WORDS), max_size=6),
        ),
        min_size=2,
        max_size=12,
    ),
    st.sets(st.sampled_from(_BRANDS[1:]), min_size=1),
    st.sampled_from([" ", "-", ", "]),
)
@settings(max_examples=60, deadline=None)
def test_one_pass_is_the_plain_definition(
    rows: list[tuple[str, list[str], list[str]]], forget: set[str], between: str
) -> None:
    """Counting every phrase in every text, and looking for every phrase of an item's own brand in each of its texts."""
    brands = [brand for brand, _, _ in rows]
    marked = [brand in forget for brand in brands]
    items = item_table(
        len(rows),
        titles=[between.join(title) or "-" for _, title, _ in rows],
        descriptions=[between.join(text) for _, _, text in rows],
        brands=brands,
    )
    if not any(marked):
        return
    split = split_of(ConceptKind.BRAND, marked)
    words, _ = removed_words(items, split, brand_names(items, split))

    def phrases(text: str) -> set[tuple[str, ...]]:
        found = [word.casefold() for word in re.findall(r"[^\W_]+", text)]
        return {tuple(found[first:last]) for first in range(len(found)) for last in range(first + 1, len(found) + 1)}

    others = [row for row, forgotten in enumerate(marked) if not forgotten]
    held = [phrases(items.titles[row]) | phrases(items.descriptions[row]) for row in others]
    for phrase in words.everywhere.union(*words.own.values()):
        share = sum(phrase in texts for texts in held) / max(len(others), 1)
        assert share <= 0.05 if phrase in words.everywhere else True
    everything = {brand: words.everywhere | own for brand, own in words.own.items()}
    scrubbed = scrubbed_items(items, split)
    for row in range(len(rows)):
        wanted = scrub._by_first(everything[brands[row]] if marked[row] else words.everywhere)
        assert scrubbed.titles[row] == scrub._removed(items.titles[row], wanted)
        assert scrubbed.descriptions[row] == scrub._removed(items.descriptions[row], wanted)
