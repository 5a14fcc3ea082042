"""How likely a passive order is to be filled, fitted on the in-sample training rows."""

from alpha_pipeline.fills.coefficients import save_fill_model
from alpha_pipeline.research.fitting import fit_fills
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.models import FILL_FILE, in_sample

VERSION = "1"
