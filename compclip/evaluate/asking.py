"""What VQAScore asks about a picture and a text, which answer counts, and what of its likelihood is the score.

    answer_likelihood   exp of minus the mean cross entropy over the answer's tokens and the one that ends it
    first_token         the probability of the answer's first token

As in the authors' program (github.com/linzhiqiu/t2v_metrics), where each family of models has words of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compclip.base.errors import UserError, unknown

ANSWER_LIKELIHOOD, FIRST_TOKEN = SCORES = ("answer_likelihood", "first_token")
SQUARE_PADDED, SQUARE_CUT = "square_padded", "square_cut"
IMAGE = "<image>"  # the place of the picture in a dialogue
VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    f"and polite answers to the user's questions. USER: {IMAGE}\n{{}} ASSISTANT: "
)


@dataclass(frozen=True)
class VqaQuestion:
    """What is asked about each pair, which answer counts and how. Raises UserError for a question without a place.

    `dialogue` is the chat around the question; without it the processor's own template writes it. `pictures` says how
    they become squares before the processor gets them: padded with its mean colour, or the middle of what is resized to
    its shorter side; without it they stay as they are.
    """

    question: str = 'Does this figure show "{}"? Please answer Yes or No.'
    answer: str = "Yes"
    score: str = FIRST_TOKEN
    dialogue: str = ""
    pictures: str = ""

    def __post_init__(self) -> None:
        if "{}" not in self.question:
            raise UserError(f"question={self.question!r}: must have {{}} where the text belongs")
        if not self.answer.strip():
            raise UserError("answer: must be a word, as Yes")
        if self.score not in SCORES:
            raise unknown("score", self.score, SCORES, "--score")

    def about(self, text: str) -> str:
        """The question about a text; braces in the text are its own."""
        return self.question.replace("{}", text)


# By transformers' model_type. All others chat, and are asked as the program asks GPT-4o, Qwen-VL and Gemma.
FAMILIES = {
    "llava": VqaQuestion(
        'Does this figure show "{}"? Please answer yes or no.', "Yes", ANSWER_LIKELIHOOD, VICUNA, SQUARE_PADDED
    ),
    "instructblip": VqaQuestion(
        'Question: Does this figure show "{}"? Please answer yes or no.',
        "yes",
        ANSWER_LIKELIHOOD,
        pictures=SQUARE_CUT,
    ),
}


def question_of_family(model_type: str, words: Mapping[str, str]) -> VqaQuestion:
    """The authors' asking for a family of models, with the fields in `words` that are not empty in place of theirs."""
    return replace(FAMILIES.get(model_type, VqaQuestion()), **{name: word for name, word in words.items() if word})
