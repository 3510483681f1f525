"""LAMB of `albert_tf.optimization` for PyTorch, in as few operators as its lists of tensors allow.

The same arithmetic: no correction of the moments' bias, decay inside the update, and neither decay nor
trust ratio for layer norms and biases.
"""

import re
from collections.abc import Iterable

import torch

_EXCLUDED = re.compile(r"layer_?norm|bias", re.IGNORECASE)


class Lamb:
    """Updates parameters from their `grad`; hyper-parameters are the defaults of our `Lamb`.

    Args:
        named_parameters: of the model; those without a gradient are left alone.
        weight_decay_rate: of the parameters that are not excluded.
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: outside the root.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]],
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
    ):
        self._named_parameters = list(named_parameters)
        self._weight_decay_rate = weight_decay_rate
        self._betas = beta_1, beta_2
        self._epsilon = epsilon
        self._moments = {
            name: (torch.zeros_like(parameter), torch.zeros_like(parameter))
            for name, parameter in self._named_parameters
        }

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Makes one update."""
        for is_excluded in (False, True):
            named = [
                (name, parameter)
                for name, parameter in self._named_parameters
                if parameter.grad is not None and bool(_EXCLUDED.search(name)) == is_excluded
            ]
            parameters = [parameter for _, parameter in named]
            update = self._adam_update([name for name, _ in named], parameters)
            if not is_excluded:
                torch._foreach_add_(update, parameters, alpha=self._weight_decay_rate)
                torch._foreach_mul_(update, _trust_ratios(parameters, update))
            torch._foreach_add_(parameters, update, alpha=-learning_rate)

    def _adam_update(
        self, names: list[str], parameters: list[torch.nn.Parameter]
    ) -> list[torch.Tensor]:
        gradients = [parameter.grad for parameter in parameters]
        beta_1, beta_2 = self._betas
        m, v = (list(moments) for moments in zip(*map(self._moments.get, names), strict=True))
        torch._foreach_lerp_(m, gradients, 1 - beta_1)
        torch._foreach_mul_(v, beta_2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - beta_2)
        root = torch._foreach_sqrt(v)
        torch._foreach_add_(root, self._epsilon)
        return list(torch._foreach_div(m, root))


def _trust_ratios(
    parameters: list[torch.nn.Parameter], update: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Returns |w| / |update| of each, or 1 where a norm is 0."""
    norms = zip(torch._foreach_norm(parameters), torch._foreach_norm(update), strict=True)
    return [
        torch.where((weight > 0) & (change > 0), weight / change, 1.0) for weight, change in norms
    ]
