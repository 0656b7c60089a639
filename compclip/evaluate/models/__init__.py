"""Models that are no open_clip models, one file a family: `load(ref, device)` gives an object with one of two ways.

    encode_images(pictures) and encode_texts(texts)   vectors [B, D] of PIL pictures (RGB) and of texts, of any length
    score_pairs(pictures, texts)                      how well each picture fits its text, [B]

Vectors and scores are tensors or arrays. Other packages bring theirs by the entry point group `compclip.models`.
"""
