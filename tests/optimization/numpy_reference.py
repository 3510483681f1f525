"""The original's optimizers in float64 NumPy, one variable at a time, written from their formulas."""

import numpy as np


def run(initial, gradients, schedule, lamb):
    """Returns variables after an update with each step's gradients, clipped to global norm 1."""
    variables = dict(initial)
    m = {name: np.zeros_like(value) for name, value in initial.items()}
    v = {name: np.zeros_like(value) for name, value in initial.items()}
    for step, at_step in enumerate(gradients):
        rate = learning_rate(step, **schedule)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in at_step.values()))
        for name, gradient in at_step.items():
            gradient = gradient / max(norm, 1.0)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            update = m[name] / (np.sqrt(v[name]) + 1e-6)
            if "layer_norm" in name or "bias" in name:
                variables[name] = variables[name] - rate * update
                continue
            update += 0.01 * variables[name]
            sizes = np.linalg.norm(variables[name]), np.linalg.norm(update)
            ratio = sizes[0] / sizes[1] if lamb and all(sizes) else 1.0
            variables[name] = variables[name] - rate * ratio * update
    return variables


def learning_rate(step, peak, steps, warmup, power, start):
    """Returns the rate of the update that follows `step` updates."""
    if step < start + warmup:
        return peak * max(step - start, 0) / warmup
    return peak * (1 - min(step, steps) / steps) ** power
