"""Grading model text in killable worker processes, with time and memory limits.

    from llm.verifiers.pool import VerifierPool
    with VerifierPool("llm.verifiers.math_answer:grade") as pool:
        verdicts = pool.grade([("\\sqrt{17}", "so it is $\\sqrt{17}$")])

Nothing is imported here, so that a worker starts within a tenth of a second.
"""
