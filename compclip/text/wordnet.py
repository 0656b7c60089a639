"""Words that may replace a word and make its caption wrong, from WordNet.

    compclip stage wordnet --install      # find, fetch or copy WordNet

Candidates are antonyms and co-hyponyms, sisters under a direct hypernym (FSC-CLIP A.1): of words that captions hold
most their group (`caption_words`); of others antonyms in a usual sense and, of nouns that first of all name a thing or
a colour, the sisters that captions hold and that first of all mean this. Adjectives have the indirect antonyms that
captions hold and, for colours, the sisters of the colour's noun; numbers other number words. A candidate has the
inflection of the word, and is never a synonym, a direct hypernym or a direct hyponym of it in any sense.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.text import agreement, caption_words, word_edits, wordnet_files
from compclip.text.agreement import inflect
from compclip.text.word_edits import word_set
from compclip.text.wordnet_files import ALSO, HYPERNYM, HYPONYM, SIMILAR, Dictionary, Synset

LIMIT = 16  # candidates of a token
NEAR_SISTERS = 6  # of a word that captions hold: the frequent ones
MET = 5  # times that an antonym occurs in the texts, if captions do not hold it
SENSES = 3  # antonyms are those of a lemma's most frequent senses
POS_LETTERS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
NEAR_SYMBOLS = (HYPERNYM, HYPONYM, SIMILAR, ALSO)
THINGS = frozenset(
    wordnet_files.LEXNAMES.index(f"noun.{field}")
    for field in ("animal", "artifact", "body", "food", "object", "person", "plant", "substance")
)
ATTRIBUTE = wordnet_files.LEXNAMES.index("noun.attribute")
_LETTERS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "s"}  # of the kinds of sense keys
REPLACED = (*POS_LETTERS, "PROPN", "NUM")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_OFFENSIVE = ("offensive", "obscene", "disparag", "derogat", "slur", "vulgar", "prostitut")
UNFIT = word_set("bitch bastard whore slut tart harlot fag queer savage cripple moron idiot retard nazi")
_SKIPPED_VERBS = word_set("be have do get")
SLIPS = {"NNP": "NN", "NNPS": "NNS"}  # the tagger's, of words in lower case


def find_candidates(
    word: str,
    lemma: str,
    pos: str,
    tag: str,
    words_of_caption: frozenset[str] = frozenset(),
    article: str = "",
    has_object: bool = False,
    vocabulary: frozenset[str] | None = None,
) -> tuple[str, ...]:
    """Return at most 16 replacements of a token, in a fixed order: antonyms, then sisters, frequent words first.

    `words_of_caption` (in lower case) are left out. `article`: "a" or "an" where one is before the
    word; only words that go with it are given. `has_object`: whether a verb has one. They are written as the
    word is: capitals, or a first capital. Of a `vocabulary` (in lower case) only its words are given.
    Raises UserError where no WordNet is installed, or a damaged one.
    """
    if pos == "PROPN" and word.islower():
        pos = "NOUN"
        tag = SLIPS.get(tag, tag)
    every_form = _inflected_candidates(word.lower(), lemma.lower(), pos, tag, has_object)
    forms = every_form[: 4 * LIMIT] if vocabulary is None else tuple(f for f in every_form if f in vocabulary)
    best: list[str] = []
    for form in forms:
        fits_article = not article or agreement.article_for(form) == article
        if fits_article and words_of_caption.isdisjoint((form, form.removesuffix("s"))):
            best.append(word_edits.write_like(word, form))
        if len(best) == LIMIT:
            break
    return tuple(best)


@contextlib.contextmanager
def report_damage(word: str) -> Iterator[None]:
    """Raise UserError where WordNet's files are damaged at `word`."""
    try:
        yield
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{wordnet_files.find_folder()}: damaged ({type(error).__name__} at {word!a}); remove it, then run "
            "`compclip stage wordnet --install`"
        ) from error


@functools.lru_cache(maxsize=1 << 15)
def _inflected_candidates(word: str, lemma: str, pos: str, tag: str, has_object: bool) -> tuple[str, ...]:
    """Return inflected replacements of a word, best first."""
    if pos == "NUM":
        return tuple(number for number in NUMBERS if number != word) if word in NUMBERS else ()
    if pos not in POS_LETTERS or not word.isalpha() or lemma in _SKIPPED_VERBS or word in caption_words.SKIPPED:
        return ()
    pos_letter = POS_LETTERS[pos]
    lemma = "person" if word == "people" else lemma
    key = "t" if has_object and pos_letter == "v" else pos_letter
    group = caption_words.inflect_group(word, lemma, key, tag, irregular_forms(pos_letter))
    if group:
        return group
    with report_damage(word):
        lemma = lemma if synsets_of(lemma, pos_letter) else next(iter(dictionary().bases(word, pos_letter)), lemma)
        may_be_mass = pos_letter != "n" or (lemma in agreement.MASS and tag != "NNS")
        forms: dict[str | None, None] = {}
        for name in _candidate_lemmas(lemma, pos_letter):
            if may_be_mass or name not in agreement.MASS:
                forms.setdefault(inflect(name, tag, irregular_forms(pos_letter)))
    return tuple(form for form in forms if form and form != word)


@functools.lru_cache(maxsize=1 << 16)
def _candidate_lemmas(lemma: str, pos_letter: str) -> tuple[str, ...]:
    """Return replacements of a lemma, best first: antonyms in its usual senses, then relatives."""
    synsets = synsets_of(lemma, pos_letter)
    excluded = _synonyms_and_relatives(synsets, pos_letter) | {lemma}
    known = caption_words.WORDS[pos_letter]
    senses = _usual_senses(synsets, lemma)
    names = []
    for _, name in _direct_antonyms(senses, lemma):
        if name in known or load_counts()[1].get((name, pos_letter), 0) >= MET:
            names.append(name)
    if pos_letter == "n" and synsets and not lemma.endswith("ing"):
        names += _names_of_sisters(synsets[0], excluded)
    elif pos_letter == "a":
        colours = [c for c in _colours(lemma) if synsets_of(c, "a")]
        indirect = colours or _indirect_antonyms(senses, lemma)
        names += [name for name in indirect if name in known]
    return tuple(dict.fromkeys(c for c in names if c not in excluded and _is_usable(c, pos_letter)))


def _names_of_sisters(synset: Synset, excluded: set[str]) -> list[str]:
    """Return the words of a thing's or a colour's sisters that captions hold and that mean it first, frequent ones.

    Other senses have none: of a "trick" captions hold the "watch", of a "volley" the "cover".
    """
    sisters = _sisters(synset) if synset.field in THINGS or (synset.field == ATTRIBUTE and _is_colour(synset)) else []
    names = []
    for name in _ranked(sisters):
        is_known = name in caption_words.WORDS["n"] and name not in excluded
        if is_known and synsets_of(name, "n")[0] in sisters:
            names.append(name)
    return names[:NEAR_SISTERS]


def _usual_senses(synsets: list[Synset], lemma: str) -> list[Synset]:
    """Return the first sense, and those of the next ones that occur a third as often."""
    met = [times_met(s, next((i for i, word in enumerate(s.words) if word == lemma), 0)) for s in synsets[:SENSES]]
    return [s for s, count in zip(synsets, met, strict=False) if s is synsets[0] or 3 * count >= met[0] > 0]


def _direct_antonyms(synsets: list[Synset], lemma: str) -> list[tuple[Synset, str]]:
    """Return the antonyms of the word itself, each with its synset."""
    pairs: list[tuple[Synset, str]] = []
    for synset in synsets:
        pairs += dictionary().antonyms(synset, lemma)
    return pairs


def _indirect_antonyms(synsets: list[Synset], lemma: str) -> list[str]:
    """Return antonyms of what an adjective is similar to, then what is similar to its antonyms."""
    opposite: list[Synset] = []
    for head in all_related(synsets, SIMILAR):
        for word in head.words:
            opposite += [antonym for antonym, _ in dictionary().antonyms(head, word)]
    antonyms = [antonym for antonym, _ in _direct_antonyms(synsets, lemma)]
    return _ranked(opposite) + _ranked(all_related(antonyms, SIMILAR))


def _sisters(synset: Synset) -> list[Synset]:
    return [s for s in all_related(related(synset, HYPERNYM), HYPONYM) if s != synset]


def _colours(word: str) -> list[str]:
    """Return the sisters of the word as the noun of a colour, [] for other words."""
    sisters: list[Synset] = []
    for synset in synsets_of(word, "n"):
        if synset.field == ATTRIBUTE and _is_colour(synset):
            sisters += _sisters(synset)
    return _ranked(sisters)


def _is_colour(synset: Synset) -> bool:
    """Return whether a synset lies at most four steps below "color"."""
    colour = synsets_of("color", "n")[0]
    above = [synset]
    for _ in range(4):
        above = all_related(above, HYPERNYM)
        if colour in above:
            return True
    return False


def _synonyms_and_relatives(synsets: list[Synset], pos_letter: str) -> set[str]:
    """Return words that keep a caption true: synonyms in any sense, direct hypernyms, hyponyms, similar adjectives."""
    relatives = list(synsets)
    for symbol in NEAR_SYMBOLS:
        relatives += all_related(synsets, symbol)
    if pos_letter == "a":
        plain = [s for s in synsets if s.pos == "s" and not _colours(s.words[0])]
        relatives += all_related(all_related(plain, SIMILAR), SIMILAR)
    return set().union(*(synset.words for synset in relatives))


def _ranked(synsets: list[Synset]) -> list[str]:
    """Sort the words of synsets: by frequency in that sense, then by frequency in all senses, then by the alphabet."""
    keys: dict[str, tuple[int, int, str]] = {}
    for synset in synsets:
        for number, name in enumerate(() if is_offensive(synset) else synset.words):
            key = (-times_met(synset, number), -load_counts()[1].get((name, synset.pos), 0), name)
            keys[name] = min(key, keys.get(name, key))
    return sorted(keys, key=lambda name: keys[name])


def times_met(synset: Synset, number: int) -> int:
    """Return how often a word occurs in this sense in WordNet's tagged texts."""
    return load_counts()[0].get(dictionary().key(synset, number), 0)


def _is_usable(name: str, pos_letter: str) -> bool:
    """Return whether a name is one word in lower-case letters, no comparative, and no insult."""
    if pos_letter == "a" and name.endswith("er") and (synsets_of(name[:-2], "a") or synsets_of(name[:-1], "a")):
        return False
    return name.isalpha() and name.islower() and name.isascii() and len(name) > 2 and name not in UNFIT


def is_offensive(synset: Synset) -> bool:
    """Return whether the definition calls the word offensive."""
    return any(mark in synset.definition for mark in _OFFENSIVE)


# --- the dictionary -------------------------------------------------------------------------------------------


@functools.cache
def dictionary() -> Dictionary:
    """Open the installed WordNet. Raises UserError where there is none."""
    return Dictionary(wordnet_files.find_folder())


@functools.lru_cache(maxsize=1 << 16)
def synsets_of(word: str, pos_letter: str) -> list[Synset]:
    """Return the synsets of a lemma, frequent senses first."""
    return dictionary().synsets(word, pos_letter)


def related(synset: Synset, symbol: str) -> list[Synset]:
    """Return the synsets that a whole synset points to."""
    return dictionary().related(synset, symbol)


def all_related(synsets: Iterable[Synset], symbol: str) -> list[Synset]:
    """Return the synsets that any of some synsets points to, as often as it does."""
    neighbours: list[Synset] = []
    for synset in synsets:
        neighbours += related(synset, symbol)
    return neighbours


def grandparents(senses: Iterable[Synset]) -> list[Synset]:
    """Collect the synsets two steps above some senses; a sense right below a top synset has none, as released."""
    return list(dict.fromkeys(all_related(all_related(senses, HYPERNYM), HYPERNYM)))


def grandchildren(grand: Synset) -> list[Synset]:
    """Collect the synsets two steps below another one."""
    return list(dict.fromkeys(all_related(related(grand, HYPONYM), HYPONYM)))


@functools.cache
def irregular_forms(pos_letter: str) -> dict[str, tuple[str, ...]]:
    """Return the irregular forms of each lemma."""
    forms: dict[str, tuple[str, ...]] = {}
    for form, lemmas in sorted(dictionary().exceptions(pos_letter).items()):
        for lemma in lemmas:
            forms[lemma] = (*forms.get(lemma, ()), form)
    return forms


@functools.cache
def load_counts() -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """Return how often each sense (by key) and each (lemma, part of speech) occurs in WordNet's tagged texts."""
    senses: dict[str, int] = {}
    totals: dict[tuple[str, str], int] = {}
    for line in (wordnet_files.find_folder() / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        key, _, count = line.split()[:3]
        name, _, sense = key.partition("%")
        word = name, _LETTERS[sense[0]]
        senses[key], totals[word] = int(count), totals.get(word, 0) + int(count)
    return senses, totals


def main(argv: list[str]) -> int:
    """Print the folder of WordNet, after installing it if `--install` is given."""
    parser = CommandParser(prog="compclip stage wordnet", description="Find or install WordNet.", example="--install")
    parser.add_argument("--install", action="store_true", help="fetch it through NLTK or copy Debian's files")
    if parser.parse_args(argv).install:
        path, source = wordnet_files.install()
        print(f"WordNet: {path} (from {source})")
    else:
        print(f"WordNet: {wordnet_files.find_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
