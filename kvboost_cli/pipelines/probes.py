"""The built-in texts that the fidelity gate works with: three documents of facts, and two questions about them.

Each document is one chunk of 150 to 200 tokens for a common tokenizer. ``ASKED_ORDER`` is not the order in which
they are indexed, and each question has its answer in a document that stands behind another.
"""

DOCUMENTS = (
    (
        "ferry.md",
        "# The island ferry\n\n"
        "The ferry Marten sails from the east quay every ninety minutes, first at 6:15 and last at 21:45. The "
        "crossing takes thirty-five minutes in calm water. A single ticket costs four crowns, a bicycle two more, "
        "and children under seven travel free. There is room for twenty-two cars on the lower deck; lorries are "
        "taken on Tuesdays and Fridays only. When the wind is above fifteen metres a second the captain, Ida "
        "Lindqvist, may cancel a departure, and a red flag is raised at the quay. Lost property is kept in the "
        "ticket office for six weeks. In winter the ferry is replaced for ten days in February, while its hull is "
        "painted, by the smaller Otter, which carries passengers but no cars.\n",
    ),
    (
        "orchard.md",
        "# The orchard\n\n"
        "The orchard behind the school has forty-one trees: twenty-six apples, nine pears and six plums. It was "
        "planted in 1958 by the teacher Johan Berg with his pupils. The early apples are ripe in the second week of "
        "August and do not keep; the late ones are picked in October and last until March if the cellar stays at "
        "four degrees. Pruning is done in February by the gardener, with two pupils of the top class, and the cut "
        "wood is burnt in the smokehouse. Three beehives stand at the southern hedge and give about sixty kilos of "
        "honey a year. Half of the fruit goes to the school kitchen; the other half is sold at the autumn fair, "
        "which last year paid for a new ladder and a press.\n",
    ),
    (
        "observatory.md",
        "# The observatory\n\n"
        "The observatory on Kettle Hill is open to visitors on the first Saturday of each month from eight in the "
        "evening. Its main telescope has a mirror of eighty centimetres, made in 1974 and coated anew every twelve "
        "years. The dome weighs eleven tonnes and is turned by a motor of three kilowatts. Groups are led by the "
        "astronomer Ruth Okafor, who shows the moons of Jupiter, the rings of Saturn and one distant galaxy. "
        "Entry costs six crowns and includes tea. If the sky is cloudy there is a talk in the lower room, where "
        "forty chairs stand around a model of the solar system. Dogs are not admitted, and lamps have to be "
        "covered with red paper, so that eyes stay used to the dark.\n",
    ),
)
"""File name and text of each, in the order of indexing."""

ASKED_ORDER = ("observatory.md", "ferry.md", "orchard.md")

QUESTIONS = (
    "Who planted the orchard, and how many trees does it have?",
    "What happens to the ferry when the wind is strong, and who decides it?",
)
