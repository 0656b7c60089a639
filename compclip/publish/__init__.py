"""A finished run as others take it: weights in the formats of three libraries, tokenizer, preprocessing, model card."""
