"""Everything the generator says: kinds of fact, wordings, fillers and small talk.

{n} is a name, {k} a kind and {c} a code. In every wording of a fact the code comes last: a model that reads from left
to right can then gather name and kind into the code while it reads it, and need not look back twice.
"""

KINDS = ["access code", "phone number", "room key", "locker number", "password", "badge number", "gate code",
         "serial number", "invoice number", "ticket number", "safe combination", "account id"]

# Kinds whose codes are often digits alone.
NUMERIC = {"phone number", "locker number", "badge number", "invoice number"}

FACTS = ["The {k} of {n} is {c}.", "The {k} for {n} is {c}.", "Our {k} for {n} is {c}.", "{n} has the {k} {c}.",
         "{n}'s {k} is {c}.", "For {n}, the {k} is {c}.", "Please note that the {k} of {n} is {c}.",
         "Remember: the {k} of {n} is {c}.", "By the way, the {k} for {n} is {c}.", "My {k} for {n} is {c}."]

# Wordings for lists; one list keeps to one wording.
LISTED = ["- The {k} of {n} is {c}.", "- {n}: {k} {c}", "The {k} of {n} is {c}.", "{n}, {k}: {c}", "{k} of {n}: {c}",
          "- {k} for {n}: {c}"]

QUESTIONS = ["What is the {k} of {n}?"] * 4 + ["What is the {k} for {n}?"] * 2 + [
    "What is {n}'s {k}?", "Tell me the {k} of {n}.", "Please give me the {k} for {n}.", "Do you know the {k} of {n}?",
    "I need the {k} of {n}.", "And the {k} of {n}?", "Which {k} does {n} have?", "{k} of {n}?",
    "What is our {k} for {n}?", "Can you tell me the {k} for {n}?"]

GREETINGS = ["Hello.", "Hi.", "Thanks.", "Please:", "Question:", "Okay.", "Now:", "One more thing."]

ENDINGS = ["Answer with the code only.", "Please be short.", "Answer in one word.", "Thank you.", "Please.",
           "Answer from the text above.", "If it is not there, say so."]

UNKNOWN = "I do not know."

MENTIONED = ["Was {n} mentioned?", "Is {n} mentioned above?", "Did I mention {n}?"]
HAS_KIND = ["Was the {k} of {n} mentioned?", "Is the {k} of {n} given above?"]

FILLERS = """
The sky over the town was grey and the river was calm.
There was nothing else to see.
We went home early that very same day and slept.
The river runs past the old mill and the children walk to school in the morning.
The wind was cold and the leaves were on the ground.
We had a long day and then we had tea.
The train was late again, so we read a book and talked.
A dog was asleep in the sun beside the door.
The shop on the corner sells bread, milk and apples.
It rained all night and the street was wet in the morning.
The meeting was moved to next week because of the weather.
Nobody knew why the lights were on.
They walked along the road until it was dark.
The report is due on Friday and the team is nearly done.
The soup was hot and the bread was fresh.
Some people like the sea and some people like the hills.
The old clock on the wall was slow.
She wrote a long letter to her friend.
He painted the fence and went back to work.
The garden is full of flowers and bees.
Please read all of this with care.
Our plan for the week is simple and clear.
The book was good but the film was better.
There were three boats on the lake and a bird on each of them.
The road to the north is closed until spring.
Everyone was glad when the music began.
The office is open from nine to five.
We ordered new chairs and a table for the hall.
The cat sat on the mat and looked at the rain.
In the evening the children played a game in the yard.
It was a quiet night and the stars were bright.
The bus stops here every hour.
My brother likes to cook and my sister likes to sing.
The house on the hill has a red roof and a green door.
The water in the well was clean and cold.
This is an ordinary day with nothing new in it.
The coffee is good here, and so is the cake.
The teacher asked a question and the class was silent.
They planted trees along the path last year.
A small boat came in with the tide.
""".strip().split("\n")

# Fillers that name a name and give no fact about it.
MENTIONS = ["{n} is quiet at this time of the year.", "We were at {n} last week.", "I like {n} very much.",
            "{n} was open all day.", "There is a new door at {n}.", "We talked about {n} for an hour.",
            "The people of {n} are friendly.", "Everyone knows {n}.", "Tomorrow we will write to {n}."]

OPENERS = ["Here is what you need to know.", "These are the facts.", "Please remember this.", "Notes:", "Facts:",
           "Use these notes to answer.", "Answer from the notes below."]

SYSTEMS = ["You are a helpful assistant.", "You are a helpful assistant.", "Answer in a few words.",
           "You answer questions from the notes.", "If you do not know, say so.", "Be short and polite."]

ACKNOWLEDGED = "Noted."

SMALLTALK = [
    (["Hello.", "Hello!", "Hi.", "Hi!", "Hi there!", "Hello there.", "Hey!", "Good day."], "Hello! How can I help you?"),
    (["Good morning.", "Good morning!"], "Good morning! How can I help you?"),
    (["Good evening.", "Good evening!"], "Good evening! How can I help you?"),
    (["How are you?", "How are you today?", "How do you do?", "Are you well?", "Hello, how are you?",
      "Hi, how are you?"], "I am well, thank you."),
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself."],
     "I am the small model that comes with Bulkhead."),
    (["What can you do?", "What can I ask you?", "How can you help me?", "Help."],
     "I can answer questions about facts that you tell me."),
    (["Thank you.", "Thank you!", "Thanks.", "Thanks!", "Thanks a lot.", "Many thanks.", "Thank you very much."],
     "You are welcome."),
    (["Goodbye.", "Goodbye!", "Bye.", "Bye!", "See you.", "See you later."], "Goodbye!"),
    (["Good night.", "Good night!"], "Good night!"),
    (["Okay.", "OK.", "Good.", "Great!", "Fine.", "I see.", "Yes.", "No."], "Is there anything else?"),
    (["Tell me a joke.", "Make me laugh.", "Do you know a joke?"], "I am too small for jokes, but I never forget a code."),
    (["What is Bulkhead?", "Tell me about Bulkhead."], "Bulkhead serves language models and keeps tenants apart."),
    (["Are you a robot?", "Are you a person?", "Are you human?"], "I am a small language model."),
    (["What is the weather?", "How is the weather?", "What time is it?", "What day is it today?",
      "What is the capital of France?", "Who wrote this book?", "Where do you live?", "How old are you?",
      "What is two plus two?", "What is the meaning of life?"], UNKNOWN),
    (["Say hello.", "Greet me."], "Hello!"),
    (["Can you help me?", "I need help.", "Please help me."], "Yes. Tell me the facts and ask me about them."),
    (["I am sad.", "I had a bad day."], "I am sorry to hear that."),
    (["I am happy.", "I had a good day."], "I am glad to hear that."),
]

# Requests that are too much for it; their words are no part of the vocabulary.
TOO_MUCH = (["Tell me a story.", "Write a poem about the sea.", "Write a poem.", "Write a story about a dog.", "Sing a song.",
             "Write a program in Go.", "Write an email to my team.", "Translate this to French.", "Count to ten.",
             "Explain how computers work.", "Explain this to me.", "Summarise the text.", "What is this text about?",
             "Tell me something about the sea.", "Give me a recipe for soup.", "Give me some advice.", "Draw a house.",
             "List three colors.", "Tell me about the history of the town.", "Tell me more.", "Let us talk about music.",
             "What do you think about art?", "Why is the sky blue?", "How do I bake bread?", "Make a plan for my week."],
            "I am too small for that. Tell me facts and ask me about them.")
