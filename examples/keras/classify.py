"""Fine-tunes, evaluates, saves, exports and serves a classifier of texts with Keras alone.

    python classify.py PRETRAINED_FOLDER VOCABULARY.model TRAIN.csv DEV.csv OUTPUT_FOLDER

A CSV file has a header row and the columns label (a number from 0) and text.
"""

import os
import sys

import keras
import tensorflow as tf

import albert_tf

pretrained, vocabulary, train_file, dev_file, output = sys.argv[1:]
train, dev = (
    tf.data.experimental.CsvDataset(path, [tf.int32, tf.string], header=True)
    .map(lambda label, text: (text, label))
    .shuffle(10_000)
    .batch(32)
    for path in (train_file, dev_file)
)

tokenizer = albert_tf.AlbertTokenizer(vocabulary)
text = keras.Input((), dtype="string", name="text")
inputs = albert_tf.Preprocessor(tokenizer, max_seq_length=128)(text)
classifier = albert_tf.AlbertClassifier.from_preset(pretrained, num_classes=2)
model = keras.Model(text, classifier(inputs))

loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(albert_tf.AdamWeightDecay(2e-5, bias_correction=True), loss, metrics=["accuracy"])
model.fit(train, validation_data=dev, epochs=3)
print(model.evaluate(dev, return_dict=True))

os.makedirs(output, exist_ok=True)
model.save(f"{output}/classifier.keras")  # with the vocabulary
model.export(f"{output}/1")  # takes strings; a version folder of TensorFlow Serving
served = tf.saved_model.load(f"{output}/1")
print(tf.nn.softmax(served.serve(tf.constant(["A fine film."]))).numpy())
