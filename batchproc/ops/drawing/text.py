"""Made-up business letters in English and German: natural sentences of dictionary words, drawn by a seed.

Every phrase that goes into a slot fits the grammar of all sentences that have that slot, so that what comes out is
text as an archive holds it, with dates, amounts, names, umlauts and ß, and an honest test for recognition.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Language = Literal["eng", "deu"]


@dataclass(frozen=True, slots=True)
class LetterText:
    """The parts of a letter, in reading order. ``address`` and ``sender`` are lines; ``body`` is paragraphs."""

    sender: tuple[str, ...]
    address: tuple[str, ...]
    date: str
    subject: str
    greeting: str
    body: tuple[str, ...]
    closing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Words:
    months: str
    first_names: str
    last_names: str
    cities: str
    streets: str
    firms: tuple[str, ...]
    subjects: tuple[str, ...]
    sentences: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    date: str
    house: str
    contact: str
    greeting: str
    farewell: tuple[str, ...]
    role: tuple[str, ...]
    amount: Callable[[int, int], str]


_ENGLISH = _Words(
    months="January February March April May June July August September October November December",
    first_names="Alice Martin Helen George Laura Peter Diana Robert Susan Walter Julia Edward Nancy Oliver Thomas",
    last_names="Carter Bennett Morgan Hughes Parker Sanders Turner Wallace Fisher Gibson Marshall Palmer Spencer Webb",
    cities="Bristol Oxford Durham Lincoln Norwich Exeter Chester Winchester Carlisle Lancaster Worcester Salisbury",
    streets="Market Street,Church Road,Station Road,Mill Lane,Park Avenue,Castle Street,Bridge Road,Garden Lane",
    firms=("{last} and Sons Limited", "{city} Property Trust", "{last} Insurance Brokers", "{city} Water Company"),
    subjects=(
        "Your letter about the {topic}",
        "Renewal of the {paper}",
        "Report on the {topic}",
        "Delivery of the {goods}",
        "Missing pages of the {paper}",
    ),
    sentences=(
        "Thank you for your letter of {date}, which reached our office in {city} only this week.",
        "We have read the {paper} with care and agree with most of the points that you raise in it.",
        "According to our records, the balance of {amount} for invoice number {number} has not been paid yet.",
        "Please sign the {paper} and send one copy back to us before the end of {month}.",
        "The {group} will meet in {city} on {date} in order to discuss the {topic}.",
        "My colleague {first} {last} has taken over all questions about the {topic}.",
        "The {goods} were delivered to {street} in {city}, but three of the boxes had been damaged on the way.",
        "Since the {topic} took longer than we expected, the costs have risen to {amount}.",
        "You will find a copy of the {paper} together with this letter.",
        "Both parties may end the agreement in writing at least six weeks before the end of a year.",
        "If we do not hear from you by {date}, we shall assume that you accept the offer.",
        "The {group} asked us to keep the original of the {paper} for at least ten years.",
        "Our engineers visited the site twice and could not find any reason for the delay.",
        "We are sorry for the trouble that this has caused and will do our best to solve the problem quickly.",
        "The first part of the payment, {amount}, is due as soon as the {goods} have arrived.",
        "It would help us a great deal if you could describe once more how the damage was discovered.",
        "Last summer the roof of the building was repaired, and the walls on the north side were painted.",
        "None of the {goods} listed in the {paper} may leave the warehouse without written permission.",
        "Mr {last} told us by telephone that the {group} had already approved the {topic}.",
        "The enclosed list shows every change since {month}, with the name of the person who asked for it.",
        "We would like to remind you that the {paper} has to be renewed every two years.",
        "Should you have any further questions, please call us on any working day between nine and five.",
        "A detailed account of the {topic} was published in the annual report, and the {group} welcomed it.",
        "For this reason we suggest a visit to {city}, where the {goods} can be examined at any time.",
        "The amount of {amount} has been returned to your account and should appear there within a few days.",
    ),
    slots={
        "topic": (
            "new storage building",
            "repair of the old bridge",
            "change of ownership",
            "annual review",
            "garden behind the school",
            "move to a larger office",
            "water damage in the cellar",
            "exchange of the heating system",
            "planned extension of the library",
            "sale of the upper meadow",
        ),
        "paper": (
            "lease contract",
            "insurance policy",
            "building permit",
            "purchase agreement",
            "inspection report",
            "maintenance contract",
            "last will",
            "land register entry",
            "delivery note",
            "cost estimate",
        ),
        "goods": (
            "spare parts",
            "wooden shelves",
            "old photographs",
            "filing cabinets",
            "printed catalogues",
            "window frames",
            "measuring instruments",
            "office chairs",
            "garden tools",
        ),
        "group": (
            "board of directors",
            "town council",
            "finance committee",
            "residents",
            "supervisory board",
            "heirs",
            "staff of the archive",
            "members of the society",
        ),
    },
    date="{day} {month} {year}",
    house="{house} {street}",
    contact="Telephone {phone}",
    greeting="Dear {title} {last},",
    farewell=("Yours sincerely,", "With kind regards,"),
    role=("Head of Accounts", "Customer Service", "Legal Department", "Director"),
    amount=lambda whole, cents: f"{whole:,}.{cents:02} pounds",
)

_GERMAN = _Words(
    months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    first_names="Anna Jürgen Käthe Matthias Grete Lukas Sabine Jörg Monika Günther Ursula Björn Franziska Thomas Heike",
    last_names="Müller Schäfer Köhler Krüger Weiß Lehmann Böhm Vogt Schröder Jäger Großmann Winkler Förster Brandt",
    cities="München Köln Göttingen Lübeck Würzburg Düsseldorf Münster Tübingen Osnabrück Gießen Bremen Kassel Weimar",
    streets="Hauptstraße,Mühlenweg,Schloßstraße,Bahnhofstraße,Gärtnergasse,Königsallee,Am Südhang,Weißdornweg",
    firms=("{last} und Söhne Gesellschaft", "Stadtwerke {city}", "Hausverwaltung {last}", "Baubüro {last}"),
    subjects=(
        "Ihr Schreiben über {topic}",
        "Verlängerung für {paper}",
        "Bericht über {topic}",
        "Lieferung: {goods}",
        "Fehlende Unterlagen über {topic}",
    ),
    sentences=(
        "Vielen Dank für Ihr Schreiben vom {date}, das unser Büro in {city} erst in dieser Woche erreicht hat.",
        "Wir haben {paper} gründlich geprüft und stimmen Ihnen in den meisten Punkten zu.",
        "Nach unseren Unterlagen ist der Betrag von {amount} für die Rechnung Nummer {number} noch nicht bezahlt.",
        "Bitte schicken Sie uns {paper} mit Ihrer Unterschrift bis Ende {month} zurück.",
        "Am {date} treffen wir uns in {city}, um über {topic} zu sprechen.",
        "Unsere Zweigstelle in {city} beantwortet Ihnen gern alle Fragen, die Sie noch haben.",
        "Außerdem wurden {goods} in die hinteren Regale im Keller geräumt, wo es für Papier leider zu feucht ist.",
        "Weil die Arbeiten länger dauerten als erwartet, sind die Kosten auf {amount} gestiegen.",
        "Eine Abschrift finden Sie in der Anlage zu diesem Schreiben, ebenso {paper}.",
        "Beide Seiten können den Vertrag spätestens sechs Wochen vor dem Jahresende schriftlich kündigen.",
        "Falls wir bis zum {date} nichts von Ihnen hören, gehen wir davon aus, dass Sie das Angebot annehmen.",
        "Die Prüfer haben uns gebeten, {paper} mindestens zehn Jahre lang aufzubewahren.",
        "Unsere Techniker waren zweimal vor Ort und konnten keine Ursache für die Verzögerung entdecken.",
        "Wir bedauern die Schwierigkeiten, die Ihnen dadurch entstanden sind, und bemühen uns um eine schnelle Lösung.",
        "Der erste Teil der Zahlung, {amount}, wird fällig, sobald {goods} bei Ihnen eingetroffen sind.",
        "Es wäre für uns sehr hilfreich, wenn Sie noch einmal schildern könnten, wie der Schaden bemerkt wurde.",
        "Im vergangenen Sommer wurde das Dach des Gebäudes ausgebessert, und die Wände im Norden wurden gestrichen.",
        "Ohne schriftliche Erlaubnis dürfen {goods} das Lager nicht verlassen.",
        "Herr {last} hat uns am Telefon mitgeteilt, dass der Stadtrat {topic} bereits genehmigt hat.",
        "Die beigefügte Liste zeigt alle Änderungen seit {month} und nennt die Personen, die sie gewünscht haben.",
        "Wir möchten Sie daran erinnern, dass Sie {paper} alle zwei Jahre erneuern müssen.",
        "Für weitere Fragen stehen wir Ihnen an jedem Werktag zwischen neun und siebzehn Uhr zur Verfügung.",
        "Im Jahresbericht wird {topic} ausführlich beschrieben, und die Mitglieder haben das sehr begrüßt.",
        "Deshalb schlagen wir einen Besuch in {city} vor, denn dort können Sie {goods} jederzeit besichtigen.",
        "Der Betrag von {amount} wurde auf Ihr Konto überwiesen und müsste dort in einigen Tagen erscheinen.",
    ),
    slots={
        "topic": (
            "die Erweiterung der Bücherei",
            "die Sanierung der alten Brücke",
            "die jährliche Prüfung",
            "die Übergabe des Grundstücks",
            "die Gründung der Stiftung",
            "die Erneuerung der Heizung",
            "die Öffnung des Archivs",
            "die Pflege der Grünflächen",
            "die Kündigung der Räume",
        ),
        "paper": (
            "die Baugenehmigung",
            "die Versicherungspolice",
            "die Vollmacht",
            "die Gebührenrechnung",
            "die Schlussrechnung",
            "die Erklärung der Erben",
            "die Bestätigung der Behörde",
            "die Übersicht der Maßnahmen",
        ),
        "goods": (
            "die Ersatzteile",
            "die Bücherregale",
            "die alten Fotografien",
            "die Aktenschränke",
            "die gedruckten Kataloge",
            "die Fensterrahmen",
            "die Messgeräte",
            "die Bürostühle",
            "die Gartenmöbel",
        ),
    },
    date="{day}. {month} {year}",
    house="{street} {house}",
    contact="Telefon {phone}",
    greeting="Sehr geehrte Familie {last},",
    farewell=("Mit freundlichen Grüßen", "Mit herzlichen Grüßen"),
    role=("Geschäftsführung", "Kundenbetreuung", "Rechtsabteilung", "Buchhaltung"),
    amount=lambda whole, cents: f"{whole:,}".replace(",", ".") + f",{cents:02} Euro",
)

VOCABULARIES: dict[Language, _Words] = {"eng": _ENGLISH, "deu": _GERMAN}


class _Slots(dict[str, str]):
    """Fills the slots of a template, each time anew, by a random generator."""

    def __init__(self, words: _Words, rng: random.Random) -> None:
        super().__init__()
        self._words = words
        self._rng = rng

    def fill(self, template: str) -> str:
        return template.format_map(self)

    def __missing__(self, slot: str) -> str:
        words, rng = self._words, self._rng
        made: dict[str, Callable[[], str]] = {
            "date": lambda: self.fill(words.date),
            "day": lambda: str(rng.randint(1, 28)),
            "month": lambda: rng.choice(words.months.split()),
            "year": lambda: str(rng.randint(1985, 2024)),
            "number": lambda: str(rng.randint(112, 9876)),
            "house": lambda: str(rng.randint(2, 98)),
            "phone": lambda: f"{rng.randint(200, 999)} {rng.randint(20000, 99999)}",
            "amount": lambda: words.amount(rng.randint(120, 48000), rng.randint(10, 99)),
            "first": lambda: rng.choice(words.first_names.split()),
            "last": lambda: rng.choice(words.last_names.split()),
            "city": lambda: rng.choice(words.cities.split()),
            "street": lambda: rng.choice(words.streets.split(",")),
            "title": lambda: rng.choice(("Mr", "Mrs")),
        }
        return made[slot]() if slot in made else rng.choice(words.slots[slot])


def letter_text(seed: int, language: Language, paragraphs: int) -> LetterText:
    """A letter of about 270 to 390 words with the usual four paragraphs; the same for the same arguments.

    No sentence template occurs twice in a letter as long as there are enough of them (25).
    """
    words = VOCABULARIES[language]
    rng = random.Random(f"{language} {seed}")  # noqa: S311  # a repeatable drawing, not a secret
    slots = _Slots(words, rng)
    templates: list[str] = []
    body = []
    for _ in range(paragraphs):
        count = rng.choice((4, 4, 5))
        if len(templates) < count:
            templates = rng.sample(words.sentences, len(words.sentences))
        body.append(" ".join(slots.fill(templates.pop()) for _ in range(count)))
    return LetterText(
        sender=(slots.fill(rng.choice(words.firms)), slots.fill(words.house + ", {city}"), slots.fill(words.contact)),
        address=(slots.fill("{first} {last}"), slots.fill(words.house), slots.fill("{city}")),
        date=slots.fill("{city}, " + words.date),
        subject=slots.fill(rng.choice(words.subjects)),
        greeting=slots.fill(words.greeting),
        body=tuple(body),
        closing=(rng.choice(words.farewell), slots.fill("{first} {last}"), rng.choice(words.role)),
    )
