"""The words of the demo catalogue: categories, products and invented brands. Every name is made up."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BRANDS", "CATEGORIES", "FEATURES", "USES", "VARIANTS", "Category", "Subcategory"]


class Subcategory(NamedTuple):
    """A shelf: its name and the products on it."""

    name: str
    products: tuple[str, ...]


class Category(NamedTuple):
    """A department. ``base`` is a typical price in cents; ``next`` are the departments people drift to."""

    name: str
    base: int
    next: tuple[int, int]
    materials: tuple[str, ...]
    subcategories: tuple[Subcategory, ...]


CATEGORIES: tuple[Category, ...] = (
    Category(
        "Camping",
        3900,
        (1, 4),
        ("Ripstop", "Aluminium", "Titanium", "Canvas"),
        (
            Subcategory("Tents and Shelters", ("Dome Tent", "Tarp Shelter", "Bivouac Bag", "Footprint Groundsheet")),
            Subcategory("Camp Cooking", ("Gas Stove", "Mess Kit", "Camp Kettle", "Folding Grill")),
            Subcategory("Sleeping", ("Sleeping Bag", "Inflatable Mat", "Camp Pillow", "Hammock")),
        ),
    ),
    Category(
        "Climbing",
        4600,
        (2, 0),
        ("Forged", "Nylon", "Alloy", "Dyneema"),
        (
            Subcategory("Ropes and Slings", ("Dynamic Rope", "Dyneema Sling", "Accessory Cord")),
            Subcategory("Hardware", ("Locking Carabiner", "Belay Device", "Ascender", "Quickdraw Set")),
            Subcategory("Harnesses and Helmets", ("Sport Harness", "Trad Harness", "Climbing Helmet")),
        ),
    ),
    Category(
        "Running",
        3100,
        (3, 1),
        ("Merino", "Mesh", "Recycled", "Seamless"),
        (
            Subcategory("Shoes", ("Trail Shoe", "Road Shoe", "Racing Flat")),
            Subcategory("Apparel", ("Running Jacket", "Split Shorts", "Thermal Tights", "Arm Sleeves")),
            Subcategory("Hydration", ("Soft Flask", "Hydration Vest", "Handheld Bottle")),
        ),
    ),
    Category(
        "Cycling",
        3500,
        (2, 5),
        ("Carbon", "Alloy", "Waterproof", "Steel"),
        (
            Subcategory("Lights and Locks", ("Front Light", "Rear Light", "Chain Lock", "Folding Lock")),
            Subcategory("Maintenance", ("Floor Pump", "Chain Cleaner", "Multi-Tool", "Truing Stand")),
            Subcategory("Bags", ("Pannier Pair", "Saddle Bag", "Handlebar Roll")),
        ),
    ),
    Category(
        "Fishing",
        2800,
        (0, 6),
        ("Graphite", "Braided", "Neoprene", "Brass"),
        (
            Subcategory("Rods and Reels", ("Spinning Rod", "Fly Rod", "Baitcasting Reel", "Spinning Reel")),
            Subcategory("Tackle", ("Crankbait Set", "Braided Line", "Jig Heads", "Tackle Box")),
            Subcategory("Waders and Nets", ("Chest Waders", "Landing Net", "Wading Boots")),
        ),
    ),
    Category(
        "Workshop",
        4200,
        (3, 6),
        ("Forged", "Cast Iron", "Hardened", "Beech"),
        (
            Subcategory("Hand Tools", ("Claw Hammer", "Block Plane", "Ratchet Set", "Chisel Set")),
            Subcategory("Measuring", ("Digital Caliper", "Laser Level", "Combination Square")),
            Subcategory("Workholding", ("Bench Vise", "Bar Clamp", "Saw Horse")),
        ),
    ),
    Category(
        "Garden",
        2500,
        (7, 5),
        ("Stainless", "Ash-Handled", "Galvanised", "Powder-Coated"),
        (
            Subcategory("Pruning", ("Bypass Pruner", "Hedge Shear", "Folding Saw")),
            Subcategory("Watering", ("Coil Hose", "Watering Can", "Oscillating Sprinkler", "Drip Kit")),
            Subcategory("Digging", ("Hand Trowel", "Border Fork", "Draining Spade")),
        ),
    ),
    Category(
        "Kitchen",
        2900,
        (6, 4),
        ("Stainless", "Enamelled", "Walnut", "Carbon Steel"),
        (
            Subcategory("Knives", ("Chef Knife", "Paring Knife", "Bread Knife", "Knife Roll")),
            Subcategory("Cookware", ("Cast Skillet", "Saucepan", "Stock Pot", "Saute Pan")),
            Subcategory("Coffee", ("Burr Grinder", "Pour-Over Dripper", "Moka Pot")),
        ),
    ),
)

BRANDS: tuple[str, ...] = (
    "Norvik", "Tarnholm", "Bluefern", "Castellan Ridge", "Oskerra", "Pine & Hollow", "Velmora", "Drumlin Works",
    "Hexley", "Quillfeather", "Brackwater", "Sunder Peak", "Mirelle", "Kestrelson", "Aldergate", "The Copper Heron",
    "Zephra", "Grindelow", "Fjordane", "Marchbank Tools", "Ivory Larch", "Ruddock", "Solvang Bros.", "Tessaly",
    "Umberline", "Wolfram & Daughters", "Cinderby", "Lowmoor", "Palisander", "Eastvale Supply", "Jackdaw",
    "Othello Steel", "Roanhorse", "Saltmarsh Co.", "Greywick", "Nimbus Nine", "Vintner's Gate", "Yarrowby", "Crofter",
    "Bellwether",
)  # fmt: skip
"""40 brands, the largest first."""

VARIANTS: tuple[str, ...] = (
    "Compact", "Pro", "Lite", "Classic", "Wide", "Long", "2-Pack", "Slate Grey", "Forest Green", "Rust Orange",
    "Large", "Small", "Mk II", "Trail Edition",
)  # fmt: skip

FEATURES: tuple[str, ...] = (
    "Stays in shape after years of hard use",
    "Packs down small and weighs little",
    "Easy to clean and to repair",
    "A dependable choice for beginners",
    "Tested in rain, mud and frost",
    "Comes with a storage pouch",
    "The grip sits well in cold hands",
    "Every part can be replaced",
)

USES: tuple[str, ...] = (
    "for weekends away",
    "for daily use",
    "for long days outside",
    "for small spaces",
    "for demanding users",
    "for the whole family",
)
