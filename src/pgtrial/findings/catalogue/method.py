"""Why a method was chosen, where the file left it open."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

METHOD_REASONS = {
    "method.blocks": Entry(text=N_("Blocks are always valid: one server at a time has the whole machine.")),
    "method.soak": Entry(text=N_("In a soak each arm has one server, and the whole machine, from beginning to end.")),
    "method.asked-for": Entry(text=N_("The file asks for it.")),
    "method.cheapest": Entry(text=N_("It is the cheapest method without objection here.")),
}
