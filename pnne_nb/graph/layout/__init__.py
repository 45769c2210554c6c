"""A layered layout: edges run one way, cross little, and the main paths are straight.

The layout is deterministic: equal graphs get equal pictures. A small edit moves little, because ties are broken by the order
of nodes.

The steps are Sugiyama's: ranks by longest path, chains of dummy vertices through the ranks that an edge skips, sweeps of
barycentres against crossings, and coordinates that keep chosen paths straight.
"""
