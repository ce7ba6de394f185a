"""The words of the demo catalogue: categories, products and invented brands. Every name is made up."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BRANDS", "CATEGORIES", "VARIANTS", "Category", "Subcategory"]


class Subcategory(NamedTuple):
    """A shelf: its name, what one says of the things on it, and the things."""

    name: str
    praise: str
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
            Subcategory(
                "Tents and Shelters",
                "Keeps out wind and rain all night",
                ("Dome Tent", "Tarp Shelter", "Bivouac Bag", "Footprint Groundsheet"),
            ),
            Subcategory(
                "Camp Cooking",
                "Boils water fast on any fire",
                ("Gas Stove", "Mess Kit", "Camp Kettle", "Folding Grill"),
            ),
            Subcategory(
                "Sleeping",
                "Warm and soft for a good rest",
                ("Sleeping Bag", "Inflatable Mat", "Camp Pillow", "Hammock"),
            ),
        ),
    ),
    Category(
        "Climbing",
        4600,
        (2, 0),
        ("Forged", "Nylon", "Alloy", "Dyneema"),
        (
            Subcategory(
                "Ropes and Slings",
                "Runs smoothly and holds every fall",
                ("Dynamic Rope", "Dyneema Sling", "Accessory Cord"),
            ),
            Subcategory(
                "Hardware",
                "Bites safely on worn anchors",
                ("Locking Carabiner", "Belay Device", "Ascender", "Quickdraw Set"),
            ),
            Subcategory(
                "Harnesses and Helmets",
                "Fits snugly around hips and head",
                ("Sport Harness", "Trad Harness", "Climbing Helmet"),
            ),
        ),
    ),
    Category(
        "Running",
        3100,
        (3, 1),
        ("Merino", "Mesh", "Recycled", "Seamless"),
        (
            Subcategory(
                "Shoes", "Grips on wet stone and cushions each stride", ("Trail Shoe", "Road Shoe", "Racing Flat")
            ),
            Subcategory(
                "Apparel",
                "Breathes well and dries quickly",
                ("Running Jacket", "Split Shorts", "Thermal Tights", "Arm Sleeves"),
            ),
            Subcategory(
                "Hydration",
                "Never leaks and drinks easily on the move",
                ("Soft Flask", "Hydration Vest", "Handheld Bottle"),
            ),
        ),
    ),
    Category(
        "Cycling",
        3500,
        (2, 5),
        ("Carbon", "Alloy", "Waterproof", "Steel"),
        (
            Subcategory(
                "Lights and Locks",
                "Seen and safe after dark",
                ("Front Light", "Rear Light", "Chain Lock", "Folding Lock"),
            ),
            Subcategory(
                "Maintenance",
                "Keeps chain and wheels true",
                ("Floor Pump", "Chain Cleaner", "Multi-Tool", "Truing Stand"),
            ),
            Subcategory(
                "Bags", "Carries luggage firmly on the frame", ("Pannier Pair", "Saddle Bag", "Handlebar Roll")
            ),
        ),
    ),
    Category(
        "Fishing",
        2800,
        (0, 6),
        ("Graphite", "Braided", "Neoprene", "Brass"),
        (
            Subcategory(
                "Rods and Reels",
                "Casts far with a smooth drag",
                ("Spinning Rod", "Fly Rod", "Baitcasting Reel", "Spinning Reel"),
            ),
            Subcategory(
                "Tackle", "Tempts trout and pike alike", ("Crankbait Set", "Braided Line", "Jig Heads", "Tackle Box")
            ),
            Subcategory(
                "Waders and Nets",
                "Stand dry in the river and land the catch",
                ("Chest Waders", "Landing Net", "Wading Boots"),
            ),
        ),
    ),
    Category(
        "Workshop",
        4200,
        (3, 6),
        ("Forged", "Cast Iron", "Hardened", "Beech"),
        (
            Subcategory(
                "Hand Tools",
                "Sharp edge and balanced handle",
                ("Claw Hammer", "Block Plane", "Ratchet Set", "Chisel Set"),
            ),
            Subcategory(
                "Measuring",
                "Accurate to a hair and easy to read",
                ("Digital Caliper", "Laser Level", "Combination Square"),
            ),
            Subcategory("Workholding", "Clamps boards tight without a mark", ("Bench Vise", "Bar Clamp", "Saw Horse")),
        ),
    ),
    Category(
        "Garden",
        2500,
        (7, 5),
        ("Stainless", "Ash-Handled", "Galvanised", "Powder-Coated"),
        (
            Subcategory("Pruning", "Cuts green wood cleanly", ("Bypass Pruner", "Hedge Shear", "Folding Saw")),
            Subcategory(
                "Watering",
                "Soaks beds evenly without puddles",
                ("Coil Hose", "Watering Can", "Oscillating Sprinkler", "Drip Kit"),
            ),
            Subcategory(
                "Digging", "Turns heavy clay with little effort", ("Hand Trowel", "Border Fork", "Draining Spade")
            ),
        ),
    ),
    Category(
        "Kitchen",
        2900,
        (6, 4),
        ("Stainless", "Enamelled", "Walnut", "Carbon Steel"),
        (
            Subcategory(
                "Knives", "Slices thin and keeps its edge", ("Chef Knife", "Paring Knife", "Bread Knife", "Knife Roll")
            ),
            Subcategory(
                "Cookware", "Heats evenly and cleans quickly", ("Cast Skillet", "Saucepan", "Stock Pot", "Saute Pan")
            ),
            Subcategory("Coffee", "Brews a rich and fragrant cup", ("Burr Grinder", "Pour-Over Dripper", "Moka Pot")),
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
