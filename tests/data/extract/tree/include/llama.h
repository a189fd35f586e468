// An invented header: only what the extractor looks for.
#define LLAMA_DEFAULT_SEED 0xFFFFFFFF
#define NOT_A_NUMBER       kettle
