//! The words of codes. Any two differ by at least three typing errors, so that a mistyped word is
//! recognised before it costs the code's only try.

/// A word stands for a byte, its index.
#[rustfmt::skip]
pub(super) const WORDS: [&str; 256] = [
    "acorn", "acrobat", "airport", "album", "almond", "alpine", "amber", "anchor", "antler",
    "apple", "apricot", "arctic", "arena", "arrow", "artist", "aspen", "atlas", "autumn",
    "avocado", "bagel", "bakery", "balcony", "bamboo", "banjo", "barley", "basket", "beacon",
    "beaver", "bedrock", "beehive", "biscuit", "blossom", "boulder", "bramble", "breeze",
    "bridge", "bubble", "buffalo", "butter", "cabin", "cactus", "camera", "canary", "canoe",
    "caramel", "caravan", "carpet", "cashew", "castle", "cello", "chapel", "cheetah", "cherry",
    "chimney", "cider", "cinema", "circus", "clover", "cobalt", "coconut", "coffee", "comet",
    "compass", "concert", "copper", "cottage", "cougar", "coyote", "crayon", "cricket",
    "crystal", "curtain", "cushion", "cyclone", "cypress", "daisy", "dancer", "dawn", "denim",
    "desert", "diamond", "doctor", "dolphin", "domino", "drummer", "dynamo", "eclipse", "elbow",
    "emerald", "engine", "evening", "factory", "farmer", "feather", "firefly", "flannel",
    "flute", "forest", "fossil", "freckle", "galaxy", "gallery", "garden", "garlic", "gazelle",
    "geyser", "ginger", "giraffe", "glacier", "goblet", "gondola", "gorilla", "granite",
    "grape", "guitar", "habitat", "hammock", "hamster", "harbor", "harvest", "helmet", "heron",
    "hickory", "hiking", "honey", "horizon", "husky", "iceberg", "igloo", "indigo", "island",
    "ivory", "jaguar", "jasmine", "jigsaw", "journal", "juniper", "kayak", "kernel", "kettle",
    "kingdom", "kitchen", "kiwi", "koala", "ladder", "ladybug", "lagoon", "lantern", "laundry",
    "leopard", "lettuce", "library", "lilac", "lizard", "lobster", "locket", "lotus", "lunar",
    "lynx", "magnet", "marble", "meadow", "melody", "mercury", "meteor", "mimosa", "mirror",
    "mitten", "monsoon", "mosaic", "muffin", "museum", "mustard", "napkin", "nectar", "needle",
    "nickel", "nutmeg", "oasis", "oatmeal", "obelisk", "ocean", "octopus", "olive", "omelet",
    "onion", "opera", "orange", "orbit", "orchid", "osprey", "oxygen", "painter", "palace",
    "pancake", "papaya", "paprika", "pasture", "peacock", "peanut", "pelican", "pencil",
    "penguin", "piano", "picnic", "pigeon", "pillow", "pirate", "plaza", "polar", "pottery",
    "puppet", "puzzle", "quartz", "quiver", "rabbit", "radish", "raven", "ribbon", "saddle",
    "sailor", "sandal", "saturn", "scarf", "school", "shovel", "silver", "skate", "sofa",
    "squash", "stork", "sunset", "syrup", "teapot", "temple", "toast", "tomato", "topaz",
    "toucan", "tulip", "tundra", "tunnel", "violin", "voyage", "waffle", "walnut", "weasel",
    "wheat", "window", "wolf", "wombat", "yacht", "yogurt", "zebra", "zenith", "zigzag",
];
