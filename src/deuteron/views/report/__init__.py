"""One offline HTML file that shows a profile."""
