"""The op catalogue: every operation that has or may get a device kernel, a folder each.

A folder holds one public function, its readable reference, the form that runs on any device, and the maths.

    bce   masked binary cross-entropy over several horizons
    cfc   closed-form continuous-time cell over a sequence
    conv  causal depthwise convolution with SiLU
    grn   gated residual heads, one logit per horizon
    norm  root-mean-square norm of a gated row
    ssd   selective state-space recurrence of Mamba2
    vsn   variable-selection gate
"""

from alpha_core.cuda.bce import masked_bce
from alpha_core.cuda.cfc import cfc_scan
from alpha_core.cuda.conv import conv_silu
from alpha_core.cuda.grn import grn_heads
from alpha_core.cuda.norm import gated_norm
from alpha_core.cuda.ssd import ssd_scan
from alpha_core.cuda.vsn import vsn_gate, vsn_select

__all__ = [
    "cfc_scan",
    "conv_silu",
    "gated_norm",
    "grn_heads",
    "masked_bce",
    "ssd_scan",
    "vsn_gate",
    "vsn_select",
]
