"""`python -m alpha_pipeline`: the command `alpha` where its script is not on the path."""

from alpha_pipeline.cli import main

if __name__ == "__main__":
    main()
