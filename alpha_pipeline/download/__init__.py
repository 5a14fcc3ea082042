"""Missing days from the vendor's historical API, one file a day, whole or not at all."""

from alpha_pipeline.download.config import KEY_VARIABLE, DownloadConfig
from alpha_pipeline.download.days import DayResult, fetch_days
from alpha_pipeline.download.vendor import Vendor

__all__ = ["KEY_VARIABLE", "DayResult", "DownloadConfig", "Vendor", "fetch_days"]
