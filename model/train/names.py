"""The names the model knows: each is one token, with and without a leading space.

A name outside this list takes several tokens and is recalled much less well (see docs/model.md), so the list is part
of what the model promises and docs/names.md is written from it.
"""

PLACES = """
Harbor Granite Willow Summit Meadow Canyon Orchard Lagoon Prairie Glacier Cedar Maple Aspen Birch Juniper Magnolia
Chestnut Sycamore Hickory Laurel Linden Poplar Hazel Rowan Alder Bramble Clover Thistle Heather Fern Ivy Lotus Orchid
Tulip Violet Jasmine Saffron Amber Cobalt Copper Crimson Ivory Indigo Scarlet Silver Onyx Opal Quartz Topaz Garnet
Marble Slate Basalt Falcon Heron Osprey Raven Sparrow Condor Pelican Kestrel Badger Beaver Bison Cougar Coyote Jaguar
Lynx Otter Panther Puma Walrus Atlas Apollo Aurora Comet Cosmos Eclipse Equinox Galaxy Jupiter Mercury Meteor Nebula
Neptune Nova Orion Pluto Polaris Quasar Saturn Solstice Titan Vega Venus Zenith Anchor Beacon Bridge Castle Chapel
Citadel Cottage Depot Forge Fortress Foundry Gateway Lantern Library Lighthouse Mill Monastery Outpost Palace Pavilion
Plaza Quarry Station Tavern Temple Tower Tunnel Vault Villa Wharf Oslo Lisbon Madrid Vienna Prague Berlin Dublin
London Paris Rome Milan Turin Geneva Zurich Athens Cairo Tunis Nairobi Lagos Dakar Delhi Mumbai Tokyo Osaka Kyoto
Seoul Manila Hanoi Sydney Perth Denver Boston Austin Dallas Chicago Toronto Lima Quito Bogota Havana Utrecht Bergen
""".split()

PEOPLE = """
Alice Bella Carla Diana Elena Fiona Gloria Hannah Irene Julia Karen Laura Maria Nadia Olivia Paula Rachel Sarah Tanya
Ursula Vera Wendy Yvonne Zoe Adam Boris Carlos David Edward Felix George Henry Ivan James Kevin Leon Martin Nathan
Oscar Peter Quentin Robert Simon Thomas Victor Walter Xavier Yusuf Amina Bruno Clara Derek Emma Frank Grace Hugo Ingrid
Jacob Kira Lucas Miriam Noah Oleg Priya Ravi Sofia Tobias Uma
""".split()

NAMES = PLACES + PEOPLE

assert len(set(NAMES)) == len(NAMES) >= 200

if __name__ == "__main__":
    print("# Names that the built-in model knows\n")
    print("Written by `python model/train/names.py`. Each of these %d names is one token, with and without a leading "
          "space.\n" % len(NAMES))
    for title, names in (("Places and things", PLACES), ("People", PEOPLE)):
        print("## %s\n" % title)
        line = ""
        for name in sorted(names):
            if len(line) + len(name) > 115:
                print(line.rstrip())
                line = ""
            line += name + ", "
        print(line.rstrip(", ") + "\n")
