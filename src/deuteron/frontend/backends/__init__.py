"""The NPU back ends of the front end, behind one interface: none, Neutron and Ethos-U."""
